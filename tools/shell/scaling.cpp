// SPDX-License-Identifier: Apache-2.0

/// \file
/// The commands `scaling`, `decisions` and `demand`: the number of replicas
/// wanted of each model, the policy that set the number, and the reason.

#include <algorithm>
#include <iostream>

#include "millrace/decision_file.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "shell/ask.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

std::string per_second(double x) {
  return fixed(x, x < 10 ? 1 : 0);
}

/// Keeps only the rows of the model in `args`, if given. Errors: unknown_model.
template <class Row>
result<void> keep_model(std::vector<Row>& rows, const arguments& args) {
  if (args.empty())
    return {};
  std::erase_if(rows, [&](auto& x) { return x.model != args[0]; });
  if (rows.empty())
    return error{
      ec::unknown_model, "model " + shown(args[0]) + " is not registered", {}};
  return {};
}

/// A stage, named by its layers.
std::string shown_layers(const layer_range& x) {
  return x == layer_range{}
           ? "whole replicas"
           : "layers " + std::to_string(x.first) + "-" + std::to_string(x.last);
}

/// The stages of models, for policies that scale stages separately.
void print_stages(const std::vector<scaling_status>& models) {
  table rows{{"MODEL", "STAGE", "DELAY", "TARGET", "KEY"}};
  for (auto& x : models)
    for (auto& s : x.stages)
      rows.push_back({x.model, shown_layers(s.layers), format_seconds(s.delay),
                      format_seconds(s.target), s.key ? "key" : "-"});
  if (rows.size() == 1)
    return;
  std::cout << "\n";
  print_table(rows);
}

} // namespace

int show_scaling(shell& in, const arguments& args) {
  auto list =
    ask_controller<scaling_list>(in.cluster, "autoscaler", get_scaling{});
  if (!list)
    return complain(in, list.failure().text);
  if (auto fine = keep_model(list->models, args); !fine)
    return complain(in, fine.failure().text);
  if (in.form == output_form::json)
    return print_json(to_json(*list));
  table rows{{"MODEL", "POLICY", "MIN", "MAX", "WANTED", "READY", "REQ/S",
              "WAITING", "CHANGED", "REASON"}};
  for (auto& x : list->models) {
    auto follows = !is_fixed_policy(x.policy) && x.policy != pinning_policy;
    rows.push_back(
      {x.model, x.policy, follows ? std::to_string(x.min) : "-",
       follows ? std::to_string(x.max) : "-", std::to_string(x.wanted),
       std::to_string(x.ready)
         + (x.starting > 0 ? "+" + std::to_string(x.starting) : ""),
       per_second(x.rate), std::to_string(x.waiting),
       x.changed < 0us ? "-" : format_duration(x.changed) + " ago", x.reason});
  }
  print_table(rows);
  print_stages(list->models);
  for (auto& x : list->models)
    if (x.scope == pin_scope(x.model))
      std::cout << x.model << " is pinned, until 'unpin " << x.model << "'"
                << " or the end of its time\n";
    else if (x.scope != "model/" + x.model)
      std::cout << x.model << " belongs to scope " << x.scope << "\n";
  std::cout << std::flush;
  return exit_ok;
}

int show_decisions(shell& in, const arguments& args) {
  auto list = ask_controller<decision_list>(
    in.cluster, "autoscaler",
    get_decisions{args.empty() ? std::string{} : args[0]});
  if (!list)
    return complain(in, list.failure().text);
  if (in.form == output_form::json)
    return print_json(to_json(*list));
  if (list->decisions.empty()) {
    std::cout << "no number of replicas"
              << (args.empty() ? "" : " of " + shown(args[0]))
              << " has changed since the controller began" << std::endl;
    return exit_ok;
  }
  table rows{
    {"AGO", "MODEL", "POLICY", "FROM", "TO", "GROUPS", "SNAPSHOT", "REASON"}};
  for (auto& x : list->decisions)
    rows.push_back({format_duration(x.ago), x.model, x.policy,
                    std::to_string(x.from), std::to_string(x.to),
                    joined(x.groups, ", ",
                           [](auto& g) {
                             return g.first + " x" + std::to_string(g.second);
                           }),
                    std::to_string(x.snapshot), x.reason});
  print_table(rows);
  return exit_ok;
}

int record_decisions(shell& in, const arguments& args) {
  auto list = ask_controller<decision_records>(
    in.cluster, "autoscaler",
    get_decision_records{args.size() < 2 ? std::string{} : args[1]});
  if (!list)
    return complain(in, list.failure().text);
  if (auto done = write_decisions(args[0], *list); !done)
    return complain(in, done.failure().text);
  if (in.form == output_form::json)
    return print_json(
      json{{"file", args[0]}, {"records", list->records.size()}});
  std::cout << list->records.size() << " decision(s) written to " << args[0]
            << "; replay them with: millrace decide --record " << args[0]
            << std::endl;
  return exit_ok;
}

int show_placement(shell& in, const arguments& args) {
  auto all = ask_all(in.cluster);
  if (!all)
    return complain(in, all.failure().text);
  auto is_wanted = [&](const replica_status& r) {
    return args.empty() || r.what.model == args[0];
  };
  auto out = json::array();
  table rows{
    {"DEVICE", "KIND", "REPLICA", "STATE", "LAYERS", "GROUP", "WANTED"}};
  for (auto& n : all->nodes)
    for (auto& d : n.devices) {
      auto place = n.node.name + "/" + d.id;
      auto empty = true;
      for (auto& r : n.replicas) {
        if (r.what.device != d.id || !is_wanted(r))
          continue;
        auto& g = r.what.group;
        out.push_back(json{{"device", place},
                           {"kind", d.kind},
                           {"replica", r.what.replica},
                           {"state", std::string{to_string(r.state)}},
                           {"group", to_json(g)}});
        rows.push_back({empty ? place : "", empty ? d.kind : "", r.what.replica,
                        std::string{to_string(r.state)},
                        std::to_string(r.what.layers.first) + "-"
                          + std::to_string(r.what.layers.last),
                        g.id, std::to_string(g.count)});
        empty = false;
      }
      if (empty && args.empty())
        rows.push_back({place, d.kind, "-", "-", "-", "-", "-"});
    }
  if (in.form == output_form::json)
    return print_json(json{{"replicas", out}, {"silent", all->silent}});
  for (auto& name : all->silent)
    std::cerr << "warning: node " << name << " did not answer" << std::endl;
  print_table(rows);
  return exit_ok;
}

int show_demand(shell& in, const arguments& args) {
  auto list =
    ask_controller<demand_list>(in.cluster, "cluster_state", get_demand{});
  if (!list)
    return complain(in, list.failure().text);
  if (!args.empty())
    std::erase_if(list->models, [&](auto& x) { return x.model != args[0]; });
  if (in.form == output_form::json)
    return print_json(to_json(*list));
  if (list->models.empty())
    std::cout << "no request" << (args.empty() ? "" : " for " + shown(args[0]))
              << " has arrived since the controller began\n";
  table rows{{"MODEL", "REQ/S", "ARRIVED", "WAITING", "OLDEST", "WAIT", "COST",
              "IN TIME", "CV"}};
  for (auto& x : list->models) {
    rows.push_back({x.model, per_second(x.rate), std::to_string(x.arrived),
                    std::to_string(x.waiting), format_duration(x.oldest),
                    format_seconds(x.wait),
                    x.service > 0 ? format_seconds(x.service) : "-",
                    fixed(100 * x.within, 1) + " %", fixed(x.arrival_cv, 2)});
    if (x.stages.size() > 1)
      for (auto& y : x.stages)
        rows.push_back({"  " + shown_layers(y.layers), "", "",
                        fixed(y.queue, 1), "", format_seconds(y.wait),
                        format_seconds(y.batch > 0 ? y.run / y.batch : 0), "",
                        ""});
  }
  if (rows.size() > 1)
    print_table(rows);
  for (auto& x : list->sources)
    std::cout << "gateway " << x.node << ": " << x.reports << " reports, "
              << x.ignored << " ignored, the last " << format_duration(x.ago)
              << " ago\n";
  if (list->sources.empty())
    std::cout << "no gateway is known\n";
  std::cout << std::flush;
  return exit_ok;
}

} // namespace millrace
