// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <iostream>
#include <set>

#include "actors/policies/scale/given.hpp"
#include "runtime/nearest.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"
#include "shell/ask.hpp"
#include "shell/views.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

std::string not_registered(const std::string& model,
                           const std::vector<model_status>& models) {
  std::vector<std::string> names;
  for (auto& m : models)
    names.push_back(m.settings.model);
  return "model " + shown(model) + suggestion(model, names)
         + " is not registered; there are "
         + joined(names, ", ", std::identity{});
}

/// A registered model, and the node of its registry.
struct found_model {
  std::string node;
  model_status what;
};

result<found_model> find_model(operator_client& cluster,
                               const std::string& model) {
  auto found = ask_registry(cluster);
  if (!found)
    return found.failure();
  for (auto& m : found->list.models)
    if (m.settings.model == model)
      return found_model{found->node, m};
  return error{
    ec::unknown_model, not_registered(model, found->list.models), {}};
}

/// A request to change settings of a model. The registry refuses it if the
/// settings have changed since `x` was read.
set_model change_of(const model_status& x) {
  return {x.settings, false, x.settings};
}

/// Describes the ready replicas that end when a model keeps only `left`
/// replicas.
std::string loss_text(const model_status& x, uint64_t left = 0) {
  auto ends = std::to_string(x.ready - std::min(left, x.ready));
  if (left == 0)
    return "This ends " + ends + " ready replica(s) of " + x.settings.model;
  return std::to_string(left) + " instead of "
         + std::to_string(x.settings.replicas) + " replica(s) of "
         + x.settings.model + ": this ends " + ends + " of "
         + std::to_string(x.ready) + " that are ready";
}

/// A warning that no node has this version of a model although nodes have other
/// versions. Empty if some node has the version, or if no node has any version.
std::string version_objection(operator_client& cluster,
                              const std::string& model,
                              const std::string& version) {
  auto all = ask_all(cluster);
  if (!all)
    return {};
  std::set<std::string> there;
  for (auto& n : all->nodes)
    for (auto& m : n.models)
      if (m.model == model) {
        there.insert(std::to_string(m.version));
        there.insert(m.aliases.begin(), m.aliases.end());
      }
  if (there.empty() || there.contains(version))
    return {};
  return "No node has version " + shown(version) + " of " + model
         + "; there are " + joined(there, ", ", [](auto& x) { return x; })
         + ". Until a node has it, replicas that are lost are not replaced.";
}

/// A warning that the name of a model is probably mistyped: the model is not
/// registered, no node has a bundle with this name, and a known name is
/// similar. Empty otherwise.
std::string name_objection(operator_client& cluster, const std::string& model,
                           const std::vector<model_status>& registered) {
  std::set<std::string> names;
  for (auto& m : registered)
    names.insert(m.settings.model);
  if (auto all = ask_all(cluster))
    for (auto& n : all->nodes)
      for (auto& m : n.models)
        names.insert(m.model);
  auto near = names.contains(model) ? "" : suggestion(model, names);
  return near.empty() ? ""
                      : "No node has a bundle of " + shown(model) + near + ".";
}

/// Waits up to half a second for replicas to start. Returns the controller's
/// reason why they do not; empty when they start or are ready.
std::string obstacle(operator_client& cluster, const std::string& model) {
  std::string note;
  for (int i = 0; i < 10; ++i) {
    cluster.idle(50ms);
    auto found = find_model(cluster, model);
    if (!found)
      return {};
    auto& x = found->what;
    note = x.note;
    if (note.empty() && (x.starting > 0 || x.ready >= x.wanted))
      return {};
  }
  return note;
}

/// Sets whether a model's code is trusted, and may run in threads of nodes.
int set_trust(shell& in, const std::string& model, bool trusted) {
  auto found = find_model(in.cluster, model);
  if (!found)
    return complain(in, found.failure().text);
  auto x = change_of(found->what);
  x.settings.trusted = trusted;
  return report_done(in, in.cluster.ask<ack>(found->node + "/registry", x),
                     model
                       + (trusted ? " may run in threads of nodes"
                                  : " runs in confined processes only"));
}

} // namespace

int load_model(shell& in, const arguments& args) {
  std::optional<uint64_t> replicas = 1;
  if (args.size() > 1)
    replicas = number_in<uint64_t>(args[1]);
  if (!replicas)
    return complain(in,
                    "expected a number of replicas, found " + shown(args[1]),
                    exit_wrong_call);
  auto found = ask_registry(in.cluster);
  if (!found)
    return complain(in, found.failure().text);
  set_model x; // other registered settings stay as they are
  x.settings.model = args[0];
  for (auto& m : found->list.models) {
    if (m.settings.model != args[0])
      continue;
    x = change_of(m);
    if (*replicas < m.settings.replicas
        && !confirmed(in, loss_text(m, *replicas) + "."))
      return exit_failed;
  }
  // No question for scripts, which may load a model before its bundle arrives.
  auto doubt = name_objection(in.cluster, args[0], found->list.models);
  if (!doubt.empty() && can_ask() && !confirmed(in, doubt))
    return exit_failed;
  if (args.size() > 2) {
    x.settings.version = args[2];
    if (auto why = version_objection(in.cluster, args[0], args[2]);
        !why.empty() && !confirmed(in, why))
      return exit_failed;
  }
  x.settings.replicas = *replicas;
  if (auto set = in.cluster.ask<ack>(found->node + "/registry", x); !set)
    return complain(in, set.failure().text);
  auto& scaling = x.settings.scaling;
  auto fixed = scaling.scope.empty() && is_fixed_policy(scaling.policy);
  if (in.form == output_form::text)
    std::cout << args[0] << ": "
              << (fixed || *replicas == 0
                    ? std::to_string(*replicas) + " replica(s) wanted"
                    : "served; its policy decides how many replicas there are"
                      " (see 'scaling')")
              << std::endl;
  auto why = *replicas > 0 ? obstacle(in.cluster, args[0]) : std::string{};
  if (!why.empty())
    why = "not yet: " + (doubt.empty() ? why : doubt);
  if (in.form == output_form::json)
    return print_json(json{{"ok", true}, {"note", why}});
  if (!why.empty())
    warn_of(in, {{args[0], why}});
  return exit_ok;
}

int unload_model(shell& in, const arguments& args) {
  auto found = find_model(in.cluster, args[0]);
  if (!found)
    return complain(in, found.failure().text);
  if (!confirmed(in, loss_text(found->what) + "."))
    return exit_failed;
  auto x = change_of(found->what);
  x.settings.replicas = 0;
  return report_done(in, in.cluster.ask<ack>(found->node + "/registry", x),
                     args[0] + ": 0 replica(s) wanted");
}

namespace {

/// Reads KEY=VALUE pairs into options of a policy. With `limits`, reads min and
/// max into the limits of the model.
result<void> read_pairs(std::span<const std::string> pairs,
                        std::map<std::string, std::string>& options,
                        scaling_settings* limits) {
  options.clear();
  for (auto& pair : pairs) {
    auto equals = pair.find('=');
    auto key = pair.substr(0, equals);
    auto value = equals == std::string::npos ? "" : pair.substr(equals + 1);
    auto* limit = limits == nullptr ? nullptr
                  : key == "min"    ? &limits->min
                  : key == "max"    ? &limits->max
                                    : nullptr;
    auto number = number_in<uint64_t>(value);
    if (value.empty() || (limit != nullptr && !number))
      return error{ec::bad_request,
                   "expected KEY=VALUE"
                     + std::string{limit ? " with a whole number" : ""}
                     + ", found " + shown(pair),
                   {}};
    if (limit != nullptr)
      *limit = *number;
    else
      options[key] = value;
  }
  return {};
}

/// Refuses groups and sharing settings for devices that no node has. A text
/// that cannot be parsed passes here: the registry refuses it.
result<void> check_devices(shell& in, const std::string& groups,
                           const std::string& shared = {}) {
  auto items = parse_given(groups);
  auto plans = parse_shared(shared);
  auto all = ask_all(in.cluster);
  if (!all)
    return {};
  std::vector<std::string> wanted;
  if (items)
    for (auto& item : *items)
      wanted.push_back(item.device);
  if (plans)
    for (auto& plan : *plans)
      wanted.push_back(plan.device);
  std::set<std::string> known;
  for (auto& n : all->nodes)
    for (auto& d : n.devices)
      known.insert({d.id, d.kind, n.node.name + "/" + d.id});
  for (auto& device : wanted)
    if (!device.empty() && !known.contains(device))
      return error{ec::bad_request,
                   "no node has a device " + shown(device)
                     + " (expected one of "
                     + joined(known, ", ", std::identity{}) + ")",
                   {}};
  return {};
}

/// The value of an option of policy `given`; empty if not set.
std::string option_in(const std::map<std::string, std::string>& options,
                      const std::string& name) {
  auto i = options.find(name);
  return i == options.end() ? std::string{} : i->second;
}

/// As check_devices, for the options of policy `given`.
result<void> check_options(shell& in,
                           const std::map<std::string, std::string>& options) {
  return check_devices(in, option_in(options, "groups"),
                       option_in(options, "devices"));
}

} // namespace

int change_scope(shell& in, const arguments& args) {
  constexpr std::string_view own = "model/";
  std::span pairs{args.begin() + 2, args.end()};
  if (args[0].starts_with(own)) {
    auto found = find_model(in.cluster, args[0].substr(own.size()));
    if (!found)
      return complain(in, found.failure().text);
    auto x = change_of(found->what);
    auto& scaling = x.settings.scaling;
    scaling.policy = args[1];
    if (auto fine = read_pairs(pairs, scaling.options, &scaling); !fine)
      return complain(in, fine.failure().text, exit_wrong_call);
    if (auto fine = check_options(in, scaling.options); !fine)
      return complain(in, fine.failure().text);
    return report_done(in, in.cluster.ask<ack>(found->node + "/registry", x),
                       x.settings.model + " is scaled by policy " + args[1]);
  }
  auto found = ask_registry(in.cluster);
  if (!found)
    return complain(in, found.failure().text);
  set_scope x{args[0], std::nullopt};
  if (args[1] == "configured" && pairs.empty())
    return report_done(in, in.cluster.ask<ack>(found->node + "/registry", x),
                       args[0] + " is scaled as the config has it");
  auto& settings = x.settings.emplace();
  settings.policy = args[1];
  if (auto fine = read_pairs(pairs, settings.options, nullptr); !fine)
    return complain(in, fine.failure().text, exit_wrong_call);
  if (auto fine = check_options(in, settings.options); !fine)
    return complain(in, fine.failure().text);
  auto& models = found->list.models;
  auto owned = std::any_of(models.begin(), models.end(), [&](auto& m) {
    return scope_of(m.settings) == args[0];
  });
  return report_done(
    in, in.cluster.ask<ack>(found->node + "/registry", x),
    args[0] + " is scaled by policy " + args[1]
      + (owned ? ""
               : "; no model names this scope (scaling.scope), so that it"
                 " decides nothing yet"));
}

int pin_groups(shell& in, const arguments& args) {
  pin_model x{args[0], {}, {}};
  auto end = args.end();
  if (args.size() > 3 && *(end - 2) == "for") {
    auto time = parse_duration(args.back());
    if (!time || *time <= 0us)
      return complain(in,
                      "expected a time such as 10min after for, found "
                        + shown(args.back()),
                      exit_wrong_call);
    x.time = *time;
    end -= 2;
  }
  for (auto i = args.begin() + 1; i != end; ++i)
    x.groups += (x.groups.empty() ? "" : " ") + *i;
  auto found = find_model(in.cluster, args[0]);
  if (!found)
    return complain(in, found.failure().text);
  if (auto fine = check_devices(in, x.groups); !fine)
    return complain(in, fine.failure().text);
  return report_done(in, in.cluster.ask<ack>(found->node + "/registry", x),
                     args[0] + " has these groups"
                       + (x.time > 0us ? " for " + format_duration(x.time)
                                       : ", until 'unpin " + args[0] + "'"));
}

int unpin_groups(shell& in, const arguments& args) {
  auto found = ask_registry(in.cluster);
  if (!found)
    return complain(in, found.failure().text);
  return report_done(
    in, in.cluster.ask<ack>(found->node + "/registry", unpin_model{args[0]}),
    "the policy of its scope decides for " + args[0] + " again");
}

int set_options(shell& in, const arguments& args) {
  auto found = find_model(in.cluster, args[0]);
  if (!found)
    return complain(in, found.failure().text);
  auto x = change_of(found->what);
  auto before = x.settings;
  std::vector<std::string> pairs{args.begin() + 1, args.end()};
  if (auto read = yaml_reader{"set"}.read("{}", x.settings, pairs); !read)
    return complain(in, read.failure().text, exit_wrong_call);
  if (x.settings.model != before.model)
    return complain(in, "the name of a model cannot be changed",
                    exit_wrong_call);
  auto changes = differences(before, x.settings);
  if (changes.empty())
    return report_done(in, ack{}, args[0] + " has these settings already");
  if (x.settings.replicas < before.replicas
      && !confirmed(in, loss_text(found->what, x.settings.replicas) + "."))
    return exit_failed;
  return report_done(in, in.cluster.ask<ack>(found->node + "/registry", x),
                     args[0] + ": " + changes);
}

int trust_model(shell& in, const arguments& args) {
  return set_trust(in, args[0], true);
}

int distrust_model(shell& in, const arguments& args) {
  return set_trust(in, args[0], false);
}

int forget_model_of(shell& in, const arguments& args) {
  auto found = find_model(in.cluster, args[0]);
  if (!found)
    return complain(in, found.failure().text);
  if (!confirmed(in, loss_text(found->what) + ", and deletes its settings."))
    return exit_failed;
  return report_done(
    in, in.cluster.ask<ack>(found->node + "/registry", forget_model{args[0]}),
    args[0] + " is no longer registered");
}

int drain_node(shell& in, const arguments& args) {
  auto x = ask_all(in.cluster);
  if (!x)
    return complain(in, x.failure().text);
  auto node = std::find_if(x->nodes.begin(), x->nodes.end(),
                           [&](auto& n) { return n.node.name == args[0]; });
  if (node == x->nodes.end())
    return complain(in, no_such_node(args[0], *x));
  auto what = "This ends node " + args[0] + " and its "
              + std::to_string(node->replicas.size()) + " replica(s).";
  if (node->node.has_role("gateway"))
    what += " Clients connect to it.";
  if (node->node.has_role("controller"))
    what += " It is the controller.";
  if (!confirmed(in, what))
    return exit_failed;
  return report_done(in, in.cluster.ask<ack>(args[0] + "/supervisor", drain{}),
                     args[0] + " drains");
}

int slow_emulated_device(shell& in, const arguments& args) {
  auto slash = args[0].find('/');
  auto factor = number_in<double>(args[1]);
  if (slash == std::string::npos || !factor)
    return complain(in, "slow: expected NODE/DEVICE and a number, found "
                          + shown(args[0]) + " " + shown(args[1]));
  auto node = args[0].substr(0, slash);
  return report_done(
    in,
    in.cluster.ask<ack>(node + "/supervisor",
                        slow_device{args[0].substr(slash + 1), *factor}),
    args[0] + " takes " + format_number(*factor) + " times as long");
}

int set_log_of(shell& in, const arguments& args) {
  auto level = from_string<log_level>(args[0]);
  if (!level)
    return complain(in,
                    "expected debug, info, warning, error or off, found "
                      + shown(args[0]),
                    exit_wrong_call);
  auto names = node_names(in.cluster, args, 1);
  if (!names)
    return complain(in, names.failure().text);
  auto all = order_each(in.cluster, *names, "inspector", set_log{*level});
  if (in.form == output_form::json) {
    print_json(json{{"ok", all.failed.empty()}, {"failed", all.failed}});
    return all.failed.empty() ? exit_ok : exit_failed;
  }
  warn_of(in, all.failed);
  if (!all.good.empty())
    std::cout << joined(all.good, ", ", [](auto& x) { return x.first; })
              << ": events from " << args[0] << " on are logged" << std::endl;
  return all.failed.empty() ? exit_ok : exit_failed;
}

} // namespace millrace
