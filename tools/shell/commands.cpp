// SPDX-License-Identifier: Apache-2.0
#include "shell/commands.hpp"

#include <algorithm>
#include <functional>
#include <iostream>

#include "millrace/print.hpp"
#include "runtime/text.hpp"
#include "shell/ask.hpp"

namespace millrace {

namespace {

using arguments = std::vector<std::string>;

/// Prints why a command failed, and is its exit status.
int complain(output_form form, const std::string& why,
             exit_status status = exit_failed) {
  if (form == output_form::json)
    std::cout << json{{"error", why}}.dump() << std::endl;
  else
    std::cerr << "actor-shell: " << why << std::endl;
  return status;
}

void warn_of_silent(const cluster_status& x, output_form form) {
  if (form == output_form::text)
    for (auto& name : x.silent)
      std::cerr << "warning: node " << name
                << " did not answer; what follows is without it" << std::endl;
}

/// Prints a view of the status of all nodes: text or JSON.
template <class Text, class Json>
int show(const cluster_status& x, output_form form, Text text, Json as_json) {
  warn_of_silent(x, form);
  if (form == output_form::json) {
    json out = as_json(x);
    out["silent"] = x.silent;
    out["lost"] = to_json(x.lost);
    std::cout << out.dump() << std::endl;
  } else {
    text(x);
  }
  return exit_ok;
}

template <class Text, class Json>
int show_all(operator_client& cluster, output_form form, Text text,
             Json as_json) {
  auto x = ask_all(cluster);
  return x ? show(*x, form, text, as_json) : complain(form, x.failure().text);
}

std::string roles_of(const member& x) {
  return joined(x.roles, "+", [](auto& r) { return r; });
}

size_t count_ready(const node_status& x) {
  return static_cast<size_t>(
    std::count_if(x.replicas.begin(), x.replicas.end(),
                  [](auto& r) { return r.state == replica_condition::ready; }));
}

int show_status(operator_client& cluster, const arguments&, output_form form) {
  auto text = [](const cluster_status& x) {
    size_t ready = 0, in_service = 0;
    for (auto& n : x.nodes) {
      ready += count_ready(n);
      in_service += n.state == node_condition::ready;
    }
    std::cout << x.nodes.size() + x.silent.size() << " nodes, " << in_service
              << " in service, " << ready << " replicas ready\n";
    for (auto& n : x.nodes)
      if (n.state != node_condition::ready)
        std::cout << "  " << n.node.name << " is " << to_string(n.state) << ": "
                  << n.reason << "\n";
    for (auto& n : x.lost)
      std::cout << "  " << n.node.name << " is lost since "
                << format_duration(n.ago) << ": " << n.reason << "\n";
    for (auto& n : x.nodes)
      for (auto& r : n.replicas)
        if (r.state == replica_condition::failed)
          std::cout << "  " << r.what.replica << " failed on " << n.node.name
                    << ": " << r.reason << "\n";
    std::cout << std::flush;
  };
  return show_all(cluster, form, text, [](auto& x) {
    return json{{"nodes", to_json(x.nodes)}};
  });
}

int show_nodes(operator_client& cluster, const arguments&, output_form form) {
  auto text = [](const cluster_status& x) {
    std::vector<std::vector<std::string>> rows{{"NODE", "STATE", "ROLES",
                                                "START", "UPTIME", "REPLICAS",
                                                "CPUS", "MEMORY"}};
    for (auto& n : x.nodes) {
      auto load = x.load.find(n.node.name);
      auto known = load != x.load.end();
      rows.push_back({n.node.name, std::string{to_string(n.state)},
                      roles_of(n.node), std::to_string(n.node.incarnation),
                      format_duration(n.uptime), std::to_string(count_ready(n)),
                      known ? fixed(load->second.process_cpus, 1) : "-",
                      known ? format_bytes(load->second.resident) : "-"});
    }
    for (auto& name : x.silent)
      rows.push_back({name, "silent", "?", "?", "?", "?", "?", "?"});
    for (auto& n : x.lost)
      rows.push_back({n.node.name, "lost", roles_of(n.node),
                      std::to_string(n.node.incarnation), "-", "-", "-", "-"});
    print_table(rows);
  };
  return show_all(cluster, form, text, [](auto& x) {
    auto out = json::array();
    for (auto& n : x.nodes) {
      auto load = x.load.find(n.node.name);
      out.push_back(
        json{{"node", to_json(n.node)},
             {"state", std::string{to_string(n.state)}},
             {"reason", n.reason},
             {"uptime_us", n.uptime.count()},
             {"devices", to_json(n.devices)},
             {"load", load == x.load.end() ? json{} : to_json(load->second)}});
    }
    return json{{"nodes", out}};
  });
}

int show_devices(operator_client& cluster, const arguments&, output_form form) {
  auto text = [](const cluster_status& x) {
    std::vector<std::vector<std::string>> rows{{"DEVICE", "NODE", "KIND",
                                                "LANES", "BUSY", "BATCHES/S",
                                                "WAITING", "MEMORY"}};
    for (auto& n : x.nodes)
      for (auto& d : n.devices) {
        auto u = usage_of(x, n.node.name, &node_load::devices,
                          &device_usage::device, d.id);
        rows.push_back({d.id, n.node.name, d.kind, std::to_string(d.lanes),
                        u ? fixed(100 * u->busy, 0) + " %" : "-",
                        u ? fixed(u->batches_per_second, 0) : "-",
                        u ? std::to_string(u->waiting) : "-",
                        u ? format_bytes(u->memory) : "-"});
      }
    print_table(rows);
  };
  return show_all(cluster, form, text, [](auto& x) {
    auto out = json::array();
    for (auto& n : x.nodes)
      for (auto& d : n.devices) {
        auto u = usage_of(x, n.node.name, &node_load::devices,
                          &device_usage::device, d.id);
        out.push_back(json{{"node", n.node.name},
                           {"device", to_json(d)},
                           {"usage", u ? to_json(*u) : json{}}});
      }
    return json{{"devices", out}};
  });
}

void print_tree(const std::vector<actor_info>& actors,
                const std::string& parent, const std::string& indent) {
  for (auto& x : actors) {
    if (x.parent != parent)
      continue;
    std::cout << indent << x.name;
    if (x.state != "running" || x.restarts > 0)
      std::cout << "  (" << x.state;
    if (x.restarts > 0)
      std::cout << ", restarted " << x.restarts << " times";
    if (x.state != "running" || x.restarts > 0)
      std::cout << ")";
    std::cout << "\n";
    print_tree(actors, x.name, indent + "  ");
  }
}

int show_actors(operator_client& cluster, const arguments& args,
                output_form form) {
  auto x = ask_all(cluster);
  if (!x)
    return complain(form, x.failure().text);
  auto wanted = [&](const node_status& n) {
    return args.empty() || args[0] == n.node.name;
  };
  if (!args.empty() && std::none_of(x->nodes.begin(), x->nodes.end(), wanted))
    return complain(
      form, "no node " + shown(args[0]) + " answers; there are "
              + joined(x->nodes, ", ", [](auto& n) { return n.node.name; }));
  auto text = [&](const cluster_status& y) {
    for (auto& n : y.nodes)
      if (wanted(n)) {
        std::cout << n.node.name << "\n";
        print_tree(n.actors, "", "  ");
      }
    std::cout << std::flush;
  };
  return show(*x, form, text, [&](auto& y) {
    auto out = json::object();
    for (auto& n : y.nodes)
      if (wanted(n))
        out[n.node.name] = to_json(n.actors);
    return json{{"actors", out}};
  });
}

int show_replicas(operator_client& cluster, const arguments&,
                  output_form form) {
  auto text = [](const cluster_status& x) {
    std::vector<std::vector<std::string>> rows{{"REPLICA", "NODE", "DEVICE",
                                                "STATE", "REQ/S", "BATCH",
                                                "MEMORY", "LOAD", "WARM-UP"}};
    for (auto& n : x.nodes)
      for (auto& r : n.replicas) {
        auto u = usage_of(x, n.node.name, &node_load::replicas,
                          &replica_usage::replica, r.what.replica);
        rows.push_back({r.what.replica, n.node.name, r.what.device,
                        std::string{to_string(r.state)},
                        u ? fixed(u->requests_per_second, 0) : "-",
                        u ? fixed(u->batch, 1) : "-", format_bytes(r.memory),
                        format_duration(r.load), format_duration(r.warm_up)});
      }
    print_table(rows);
  };
  return show_all(cluster, form, text, [](auto& x) {
    auto out = json::array();
    for (auto& n : x.nodes)
      for (auto& r : n.replicas) {
        auto y = to_json(r);
        auto u = usage_of(x, n.node.name, &node_load::replicas,
                          &replica_usage::replica, r.what.replica);
        y["usage"] = u ? to_json(*u) : json{};
        out.push_back(std::move(y));
      }
    return json{{"replicas", out}};
  });
}

int show_models(operator_client& cluster, const arguments&, output_form form) {
  auto found = ask_registry(cluster);
  if (!found)
    return complain(form, found.failure().text);
  if (form == output_form::json) {
    std::cout << to_json(found->list).dump() << std::endl;
    return exit_ok;
  }
  std::vector<std::vector<std::string>> rows{
    {"MODEL", "VERSION", "WANTED", "READY", "STARTING", "TRUSTED", "NOTE"}};
  for (auto& m : found->list.models)
    rows.push_back({m.settings.model,
                    m.settings.version.empty() ? "default" : m.settings.version,
                    std::to_string(m.settings.replicas),
                    std::to_string(m.ready), std::to_string(m.starting),
                    m.settings.trusted ? "yes" : "no", m.note});
  print_table(rows);
  return exit_ok;
}

int report_done(const result<done>& x, output_form form,
                const std::string& text) {
  if (!x)
    return complain(form, x.failure().text);
  if (form == output_form::json)
    std::cout << json{{"ok", true}}.dump() << std::endl;
  else
    std::cout << text << std::endl;
  return exit_ok;
}

/// Sets how many replicas of a model there shall be, keeping what else is
/// registered of it.
int set_replicas(operator_client& cluster, const std::string& model,
                 const std::string& version, uint64_t replicas,
                 output_form form) {
  auto found = ask_registry(cluster);
  if (!found)
    return complain(form, found.failure().text);
  set_model x;
  x.settings.model = model;
  for (auto& m : found->list.models)
    if (m.settings.model == model)
      x.settings = m.settings;
  if (!version.empty())
    x.settings.version = version;
  x.settings.replicas = replicas;
  return report_done(cluster.ask<done>(found->node + "/registry", x), form,
                     model + ": " + std::to_string(replicas)
                       + " replica(s) wanted");
}

int load_model(operator_client& cluster, const arguments& args,
               output_form form) {
  uint64_t replicas = 1;
  if (args.size() > 1) {
    auto n = number_in<uint64_t>(args[1]);
    if (!n)
      return complain(form,
                      "expected a number of replicas, found " + shown(args[1]),
                      exit_wrong_call);
    replicas = *n;
  }
  return set_replicas(cluster, args[0], args.size() > 2 ? args[2] : "",
                      replicas, form);
}

std::string not_registered(const std::string& model,
                           const std::vector<model_status>& models) {
  return "model " + shown(model) + " is not registered; there are "
         + joined(models, ", ", [](auto& m) { return m.settings.model; });
}

int unload_model(operator_client& cluster, const arguments& args,
                 output_form form) {
  auto found = ask_registry(cluster);
  if (!found)
    return complain(form, found.failure().text);
  auto& models = found->list.models;
  if (std::none_of(models.begin(), models.end(),
                   [&](auto& m) { return m.settings.model == args[0]; }))
    return complain(form, not_registered(args[0], models));
  return set_replicas(cluster, args[0], "", 0, form);
}

/// Says whether somebody vouches for a model's code.
int set_trust(operator_client& cluster, const std::string& model, bool trusted,
              output_form form) {
  auto found = ask_registry(cluster);
  if (!found)
    return complain(form, found.failure().text);
  auto& models = found->list.models;
  auto i = std::find_if(models.begin(), models.end(),
                        [&](auto& m) { return m.settings.model == model; });
  if (i == models.end())
    return complain(form, not_registered(model, models));
  set_model x{i->settings};
  x.settings.trusted = trusted;
  return report_done(cluster.ask<done>(found->node + "/registry", x), form,
                     model
                       + (trusted ? " may run in threads of nodes"
                                  : " runs in confined processes only"));
}

int trust(operator_client& cluster, const arguments& args, output_form form) {
  return set_trust(cluster, args[0], true, form);
}

int distrust(operator_client& cluster, const arguments& args,
             output_form form) {
  return set_trust(cluster, args[0], false, form);
}

int forget(operator_client& cluster, const arguments& args, output_form form) {
  auto found = ask_registry(cluster);
  if (!found)
    return complain(form, found.failure().text);
  return report_done(
    cluster.ask<done>(found->node + "/registry", forget_model{args[0]}), form,
    args[0] + " is registered no more");
}

int drain_node(operator_client& cluster, const arguments& args,
               output_form form) {
  return report_done(cluster.ask<done>(args[0] + "/supervisor", drain{}), form,
                     args[0] + " drains");
}

int show_help(operator_client&, const arguments&, output_form form) {
  if (form == output_form::json) {
    auto out = json::array();
    for (auto& x : shell_commands())
      out.push_back(json{
        {"command", x.name}, {"arguments", x.arguments}, {"help", x.help}});
    std::cout << json{{"commands", out}}.dump() << std::endl;
    return exit_ok;
  }
  std::vector<std::vector<std::string>> rows;
  for (auto& x : shell_commands())
    rows.push_back({"  " + x.name + " " + x.arguments, x.help});
  print_table(rows);
  return exit_ok;
}

} // namespace

const std::vector<shell_command>& shell_commands() {
  static const std::vector<shell_command> out{
    {"status", "", 0, 0, "the cluster in a few lines, and what is wrong",
     show_status},
    {"nodes", "", 0, 0, "every node: state, roles, start, uptime", show_nodes},
    {"devices", "", 0, 0, "every device: how busy, and what it holds",
     show_devices},
    {"actors", "[NODE]", 0, 1, "the actors of each node, as a tree",
     show_actors},
    {"models", "", 0, 0, "what is registered and how far it is", show_models},
    {"replicas", "", 0, 0, "every replica: where and in which state",
     show_replicas},
    {"load", "MODEL [REPLICAS [VERSION]]", 1, 3, "have replicas of a model",
     load_model},
    {"unload", "MODEL", 1, 1, "have none", unload_model},
    {"trust", "MODEL", 1, 1, "let it run in threads of nodes, which is faster",
     trust},
    {"distrust", "MODEL", 1, 1, "have it run in confined processes only",
     distrust},
    {"forget", "MODEL", 1, 1, "have none, and register it no more", forget},
    {"drain", "NODE", 1, 1, "take no new work on a node, finish, end it",
     drain_node},
    {"help", "", 0, 0, "this list", show_help},
  };
  return out;
}

int run_command(operator_client& cluster, const std::vector<std::string>& words,
                output_form form) {
  for (auto& x : shell_commands()) {
    if (x.name != words.front())
      continue;
    arguments args{words.begin() + 1, words.end()};
    if (args.size() < x.least || args.size() > x.most) {
      complain(form, "usage: " + x.name + " " + x.arguments);
      return exit_wrong_call;
    }
    return x.run(cluster, args, form);
  }
  complain(form,
           "no command " + shown(words.front()) + "; there are "
             + joined(shell_commands(), ", ", [](auto& x) { return x.name; }));
  return exit_wrong_call;
}

} // namespace millrace
