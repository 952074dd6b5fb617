// SPDX-License-Identifier: Apache-2.0

/// \file
/// The commands for the costs of models: as profiled, and measured while
/// serving.

#include <algorithm>
#include <cmath>
#include <iostream>
#include <set>

#include "models/partition/layer_costs.hpp"
#include "runtime/bytes.hpp"
#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

constexpr auto measuring_takes = 30min;

/// In place of a device's name: any device.
constexpr auto any_device = "-";

constexpr auto planning_takes = 1min;

/// Sends a request to the controller's profiler. Errors: unavailable without a
/// controller.
template <class Answer, class Request>
result<Answer> ask_profiler(operator_client& cluster, const Request& x,
                            microseconds patience = shell_patience) {
  auto found = ask_registry(cluster);
  if (!found)
    return found.failure();
  return cluster.ask<Answer>(found->node + "/profiler", x, patience);
}

std::string duration(double x) {
  return x == 0 ? "-" : format_seconds(x);
}

std::string bytes(double x) {
  constexpr double most = 1e18; // larger values can be imported
  return x == 0 ? "-" : format_bytes(static_cast<uint64_t>(std::min(x, most)));
}

/// A metric of a whole model at one row, or of a layer; 0 if it was not
/// measured.
double metric_of(const profile& x, const std::string& kind, const char* name,
                 const std::map<std::string, double>& dimensions = {}) {
  auto found = curve_of(x, name, kind, dimensions);
  return found.empty() ? 0 : found.at(1);
}

/// The profiles of models and the costs measured while serving, decoded.
struct known_costs {
  std::vector<profile> profiles;
  std::vector<live_cost> live;
  MILLRACE_FIELDS(known_costs, profiles, live)
};

result<known_costs> ask_costs(operator_client& cluster, const get_profiles& x) {
  auto answer = ask_profiler<profile_list>(cluster, x);
  if (!answer)
    return answer.failure();
  known_costs out{{}, std::move(answer->live)};
  for (auto& y : answer->profiles) {
    auto one = unpack(y);
    if (!one)
      return one.failure();
    out.profiles.push_back(std::move(*one));
  }
  return out;
}

std::string source_of(const profile& x, const std::string& kind) {
  auto i = x.sources.find(kind);
  return i == x.sources.end() ? "" : i->second;
}

/// "12 9f3a01c2": the number of layers, and the first digits of the hash of the
/// layers, which --layers and profile_layers accept.
std::string layers_text(const profile& x, const std::string& kind) {
  constexpr size_t enough = 8;
  auto n = layers_in(x, kind);
  auto out = n == 0 ? "uncut" : std::to_string(n);
  return x.layers.empty() ? out : out + " " + first_of(x.layers, enough);
}

void print_summary(const known_costs& all, size_t width) {
  table rows{{"MODEL", "DEVICE", "LAYERS", "ONE ROW", "LOAD", "MEMORY",
              "WORKS ON", "FROM"}};
  for (auto& x : all.profiles)
    for (auto& kind : devices_in(x))
      rows.push_back({x.model, kind, layers_text(x, kind),
                      duration(metric_of(x, kind, "execute_seconds")),
                      duration(metric_of(x, kind, "load_seconds")),
                      bytes(metric_of(x, kind, "memory_bytes")),
                      bytes(metric_of(x, kind, "activation_bytes")),
                      source_of(x, kind)});
  std::cout << (all.profiles.empty() ? "no model has been profiled\n"
                                     : table_text(rows, width));
}

void print_live(const known_costs& all, size_t width) {
  if (all.live.empty())
    return;
  table rows{{"SERVING", "LAYERS", "DEVICE", "EXECUTES", "REQUESTS", "FETCHES",
              "LOADS", "SENDS"}};
  for (auto& x : all.live)
    rows.push_back(
      {x.model + "." + std::to_string(x.version),
       std::to_string(x.layers.first) + "-" + std::to_string(x.layers.last - 1),
       x.device, duration(x.execute), fixed(x.batch, 1), duration(x.fetch),
       duration(x.load), duration(x.send)});
  std::cout << "\nRecent averages:\n" << table_text(rows, width);
}

/// Each layer with a bar in proportion to its time.
void print_layers(const profile& x, const std::string& kind, size_t width) {
  constexpr double widest = 20;
  auto n = layers_in(x, kind);
  double longest = 0;
  auto of = [&](size_t i, const char* name) {
    return metric_of(x, kind, name, {{"layer", static_cast<double>(i)}});
  };
  for (size_t i = 0; i < n; ++i)
    longest = std::max(longest, of(i, "execute_seconds"));
  table rows{
    {"LAYER", "ONE ROW", "", "PARAMETERS", "ATTACHED IN", "GIVES A ROW"}};
  for (size_t i = 0; i < n; ++i) {
    auto run = of(i, "execute_seconds");
    auto bar = longest > 0 ? std::lround(widest * run / longest) : 0;
    rows.push_back({std::to_string(i), duration(run),
                    std::string(static_cast<size_t>(bar), '#'),
                    bytes(of(i, "parameter_bytes")),
                    duration(of(i, "attach_seconds")),
                    bytes(of(i, "output_bytes"))});
  }
  if (n > 0)
    std::cout << "\n"
              << x.model << " on " << kind << ":\n"
              << table_text(rows, width);
}

} // namespace

int show_profiles(shell& in, const arguments& args) {
  get_profiles of;
  if (!args.empty())
    of.model = args[0];
  auto all = ask_costs(in.cluster, of);
  if (!all)
    return complain(in, all.failure().text);
  if (in.form == output_form::json)
    return print_json(to_json(*all));
  if (!args.empty() && all->profiles.empty() && all->live.empty())
    return complain(in, "no costs are known for model " + shown(args[0]));
  auto width = terminal_width();
  print_summary(*all, width);
  if (!args.empty())
    for (auto& x : all->profiles)
      for (auto& kind : devices_in(x))
        print_layers(x, kind, width);
  print_live(*all, width);
  std::cout << std::flush;
  return exit_ok;
}

int measure_costs(shell& in, const arguments& args) {
  measure_model x;
  x.model = args[0];
  if (args.size() > 1 && args[1] != any_device)
    x.device = args[1];
  if (args.size() > 2) {
    auto extent = number_in<uint64_t>(args[2]);
    if (!extent || *extent == 0)
      return complain(in,
                      "expected an extent (a whole number above 0) for the "
                      "free axes of the inputs, found "
                        + shown(args[2]),
                      exit_wrong_call);
    x.extent = *extent;
  }
  if (args.size() > 3) {
    auto threshold = number_in<double>(args[3]);
    if (!threshold || !(*threshold >= 0) || std::isinf(*threshold))
      return complain(in,
                      "expected a number X from 0 on (a request may take 1 + X "
                      "times its time alone), found "
                        + shown(args[3]),
                      exit_wrong_call);
    x.threshold = *threshold;
  }
  if (in.form != output_form::json)
    std::cout << "measuring " << x.model << ", layer by layer ..." << std::endl;
  auto done_so = ask_profiler<ack>(in.cluster, x, measuring_takes);
  if (!done_so)
    return complain(in, done_so.failure().text);
  return show_profiles(in, {x.model});
}

int show_plans(shell& in, const arguments& args) {
  get_plans x;
  x.model = args[0];
  std::optional<uint64_t> devices = x.devices;
  if (args.size() > 1)
    devices = number_in<uint64_t>(args[1]);
  if (!devices || *devices == 0)
    return complain(in, "expected a number of devices, found " + shown(args[1]),
                    exit_wrong_call);
  x.devices = *devices;
  if (args.size() > 2)
    x.device = args[2];
  auto plans = ask_profiler<plan_list>(in.cluster, x, planning_takes);
  if (!plans)
    return complain(in, plans.failure().text);
  if (in.form == output_form::json)
    return print_json(to_json(*plans));
  table rows{{"REQUESTS", "PARTS", "COLD START", "BETWEEN ANSWERS",
              "ONE REQUEST", "CUTS BEFORE LAYERS"}};
  for (auto& r : plans->ranges)
    rows.push_back(
      {std::to_string(r.first)
         + (r.last > r.first ? " to " + std::to_string(r.last) : ""),
       std::to_string(r.cuts.size() + 1), duration(r.cold), duration(r.period),
       duration(r.inference),
       r.cuts.empty() ? "-" : joined(r.cuts, " ", [](auto cut) {
         return std::to_string(cut);
       })});
  std::cout << x.model << " on " << *devices << " devices of kind "
            << plans->device << ":\n";
  print_table(rows);
  return exit_ok;
}

namespace {

int report_profiles(shell& in, const std::vector<profile>& xs,
                    const std::string& what_became) {
  std::set<std::string> models;
  for (auto& x : xs)
    models.insert(x.model);
  if (in.form == output_form::json)
    return print_json(json{{"models", models.size()}, {"profiles", xs.size()}});
  std::cout << what_became << ": " << counted(xs.size(), "profile") << " of "
            << counted(models.size(), "model") << std::endl;
  return exit_ok;
}

} // namespace

int export_profiles(shell& in, const arguments& args) {
  get_profiles of;
  if (args.size() > 1)
    of.model = args[1];
  auto all = ask_costs(in.cluster, of);
  if (!all)
    return complain(in, all.failure().text);
  if (all->profiles.empty())
    return complain(in, "no model has been profiled"
                          + (of.model.empty() ? "" : " of " + shown(of.model)));
  auto text = print_profiles(all->profiles);
  if (auto done_so = write_file(args[0], std::as_bytes(std::span{text}));
      !done_so)
    return complain(in, done_so.failure().text);
  return report_profiles(in, all->profiles, "written to " + args[0]);
}

int import_profiles(shell& in, const arguments& args) {
  auto all = read_profiles(args[0]);
  if (!all)
    return complain(in, all.failure().text);
  if (all->empty())
    return complain(in, args[0] + " has no profiles");
  for (auto& x : *all) {
    for (auto& kind : devices_in(x))
      x.sources.try_emplace(kind, "imported");
    auto kept = ask_profiler<ack>(in.cluster, keep_profile{pack(x)});
    if (!kept)
      return complain(in, shown(x.model) + ": " + kept.failure().text);
    print_warnings(x.model, kept->remarks);
  }
  return report_profiles(in, *all, "read from " + args[0]);
}

int forget_profiles_of(shell& in, const arguments& args) {
  if (!confirmed(in, "This deletes the measured and imported profiles of "
                       + args[0] + " and its plans."))
    return exit_failed;
  return report_done(in,
                     ask_profiler<ack>(in.cluster, forget_profiles{args[0]}),
                     "the profiles of " + args[0] + " are deleted");
}

} // namespace millrace
