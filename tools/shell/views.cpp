// SPDX-License-Identifier: Apache-2.0
#include "shell/views.hpp"

#include <algorithm>
#include <iostream>

#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"

namespace millrace {

namespace {

/// Prints a view of all nodes' status as text or JSON.
template <class Text, class Json>
int show(const shell& in, const cluster_status& x, Text text, Json as_json) {
  if (in.form == output_form::json) {
    json out = as_json(x);
    out["silent"] = x.silent;
    out["lost"] = to_json(x.lost);
    out["left"] = to_json(x.left);
    return print_json(out);
  }
  for (auto& name : x.silent)
    std::cerr << "warning: node " << name << " did not answer and is not shown"
              << std::endl;
  text(x);
  std::cout << std::flush;
  return exit_ok;
}

template <class Text, class Json>
int show_all(shell& in, Text text, Json as_json) {
  auto x = ask_all(in.cluster);
  return x ? show(in, *x, text, as_json) : complain(in, x.failure().text);
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

} // namespace

int show_status(shell& in, const arguments&) {
  auto text = [&](const cluster_status& x) {
    std::cout << summary(x) << "\n";
    for (auto& line : troubles(in.cluster, x, ask_registry(in.cluster)))
      std::cout << wrapped("! " + line, terminal_width(), 4) << "\n";
    for (auto& line : departures(x))
      std::cout << wrapped("- " + line, terminal_width(), 4) << "\n";
  };
  return show_all(in, text, [](auto& x) {
    return json{{"nodes", to_json(x.nodes)}};
  });
}

int show_nodes(shell& in, const arguments&) {
  auto as_json = [](const cluster_status& x) {
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
  };
  return show_all(
    in, [](auto& x) { print_table(node_table(x)); }, as_json);
}

int show_devices(shell& in, const arguments&) {
  auto as_json = [](const cluster_status& x) {
    auto out = json::array();
    for (auto& n : x.nodes)
      for (auto& d : n.devices) {
        auto u = usage_of(x, n.node.name, &node_load::devices,
                          &device_usage::device, d.id);
        out.push_back(json{{"node", n.node.name},
                           {"device", to_json(d)},
                           {"usable", is_usable(n, d.id)},
                           {"usage", u ? to_json(*u) : json{}}});
      }
    return json{{"devices", out}};
  };
  return show_all(
    in, [](auto& x) { print_table(device_table(x)); }, as_json);
}

int show_actors(shell& in, const arguments& args) {
  auto x = ask_all(in.cluster);
  if (!x)
    return complain(in, x.failure().text);
  auto wanted = [&](const node_status& n) {
    return args.empty() || args[0] == n.node.name;
  };
  if (!args.empty() && std::none_of(x->nodes.begin(), x->nodes.end(), wanted))
    return complain(in, no_such_node(args[0], *x));
  auto text = [&](const cluster_status& y) {
    for (auto& n : y.nodes)
      if (wanted(n)) {
        std::cout << n.node.name << "\n";
        print_tree(n.actors, "", "  ");
      }
  };
  return show(in, *x, text, [&](auto& y) {
    auto out = json::object();
    for (auto& n : y.nodes)
      if (wanted(n))
        out[n.node.name] = to_json(n.actors);
    return json{{"actors", out}};
  });
}

int show_replicas(shell& in, const arguments&) {
  auto as_json = [](const cluster_status& x) {
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
  };
  return show_all(
    in, [](auto& x) { print_table(replica_table(x)); }, as_json);
}

int show_models(shell& in, const arguments&) {
  auto found = ask_registry(in.cluster);
  if (!found)
    return complain(in, found.failure().text);
  // If the request fails, the columns of the load stay empty.
  auto demand =
    in.cluster.ask<demand_list>(found->node + "/cluster_state", get_demand{});
  if (in.form == output_form::json) {
    auto out = to_json(found->list);
    for (auto& m : out["models"]) {
      m["demand"] = json{};
      if (demand)
        for (auto& x : demand->models)
          if (x.model == m["settings"]["model"])
            m["demand"] = to_json(x);
    }
    return print_json(out);
  }
  print_table(model_table(found->list, demand ? *demand : demand_list{}));
  return exit_ok;
}

int show_queues(shell& in, const arguments& args) {
  auto x = ask_all(in.cluster);
  if (!x)
    return complain(in, x.failure().text);
  auto queues = ask_queues(in.cluster, *x);
  if (!args.empty())
    std::erase_if(queues, [&](auto& q) { return q.second.model != args[0]; });
  if (!args.empty() && queues.empty())
    return complain(in, "no gateway has seen a replica of " + shown(args[0]));
  if (in.form == output_form::json) {
    auto out = json::array();
    for (auto& [node, q] : queues) {
      auto y = to_json(q);
      y["gateway"] = node;
      out.push_back(std::move(y));
    }
    return print_json(json{{"queues", out}});
  }
  if (queues.empty()) {
    std::cout << "no gateway has seen a replica" << std::endl;
    return exit_ok;
  }
  print_table(queue_table(queues));
  for (auto& [node, q] : queues)
    if (q.poisons > 0)
      std::cout
        << q.model << ": " << q.poisons
        << " inputs are refused: each ended the model's process twice\n";
  std::cout << std::flush;
  return exit_ok;
}

} // namespace millrace
