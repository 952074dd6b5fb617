// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <iostream>
#include <numeric>
#include <sstream>

#include "millrace/print.hpp"
#include "models/partition/deployment.hpp"
#include "models/partition/profile_remarks.hpp"
#include "models/profile_book.hpp"
#include "runtime/program_folder.hpp"

namespace millrace {

namespace {

struct plan_options {
  std::string model;
  std::string profiles;
  std::string layers;
  std::string device;
  std::string requests = "1..3000";
  uint64_t devices = 8;
  uint64_t primed = 0;
  double rows = 1;
  std::string network = "10Gbit/s";
  std::string latency = "100us";
  std::string mode{to_string(pipelining::overlapped)};
};

/// A range of numbers of requests, both ends included.
struct request_range {
  uint64_t first, last;
};

result<request_range> parse_range(const std::string& text) {
  constexpr uint64_t most = 1'000'000;
  auto dots = text.find("..");
  auto first = number_in<uint64_t>(text.substr(0, dots));
  auto last = dots == std::string::npos
                ? first
                : number_in<uint64_t>(text.substr(dots + 2));
  if (!first || !last || *first == 0 || *last < *first || *last > most)
    return error{ec::bad_request,
                 "--requests " + shown(text)
                   + ": expected one number, or two like 1..3000, from 1 to "
                   + std::to_string(most),
                 {}};
  return request_range{*first, *last};
}

/// "0-12 13-27 28-54": the layers of each stage.
std::string layers_of(const partition& x, size_t layers) {
  std::string out;
  for (size_t i = 0; i <= x.cuts.size(); ++i) {
    auto first = i == 0 ? 0 : x.cuts[i - 1];
    auto last = (i < x.cuts.size() ? x.cuts[i] : layers) - 1;
    out += (i > 0 ? " " : "") + std::to_string(first);
    if (last > first)
      out += "-" + std::to_string(last);
  }
  return out;
}

/// The plan as a row of `models` in a node's configuration: "cuts: [13, 28]".
std::string config_of(const partition& x) {
  return "cuts: ["
         + joined(x.cuts, ", ", [](auto n) { return std::to_string(n); }) + "]";
}

/// Draws the model's layers, each as long as its share of the cold start, with
/// a bar at each cut: "[=====|====|======]".
std::string drawing_of(const partition& x, const layer_costs& costs,
                       size_t width) {
  std::vector<double> until(costs.layers());
  std::partial_sum(costs.cold.begin(), costs.cold.end(), until.begin());
  auto scale = static_cast<double>(width) / std::max(until.back(), 1e-12);
  std::string out(width, '=');
  for (auto cut : x.cuts) {
    auto at = static_cast<size_t>(until[cut - 1] * scale);
    out[std::min(at, width - 1)] = '|';
  }
  return "[" + out + "]";
}

/// A plan and the time that it needs for this number of requests.
json plan_json(const partition& x, uint64_t requests, uint64_t devices) {
  return {{"parts", x.parts()},
          {"cuts", x.cuts},
          {"cold_seconds", x.cold},
          {"period_seconds", x.period},
          {"inference_seconds", x.inference},
          {"mean_response_seconds", mean_response(x, requests, devices)}};
}

json plan_json(const deployment& x) {
  json out{{"primed_replicas", x.primed},
           {"groups", x.groups},
           {"full_replicas", x.full},
           {"mean_response_seconds", x.mean_response}};
  if (x.plan)
    out["cuts"] = x.plan->cuts;
  return out;
}

/// Prints the plans of one model.
class plan_printer {
public:
  plan_printer(const plan_options& x, const layer_costs& costs,
               const partition_planner& plans)
    : x_(x),
      costs_(costs),
      plans_(plans) {}

  json ranges_json(request_range of) const {
    auto out = json::array();
    for (auto& r : ranges(of)) {
      auto entry = plan_json(*r.plan, r.last, cold_devices());
      entry["first_requests"] = r.first;
      entry["last_requests"] = r.last;
      out.push_back(std::move(entry));
    }
    return out;
  }

  void print_ranges(request_range of) const {
    table rows{{"REQUESTS", "PARTS", "COLD", "PERIOD", "ONE", "MEAN", "WHOLE",
                "LAYERS"}};
    for (auto& r : ranges(of))
      rows.push_back(
        row(std::to_string(r.first)
              + (r.last > r.first ? "-" + std::to_string(r.last) : ""),
            *r.plan, r.last));
    print_table(rows);
    std::cout
      << "\nMEAN: mean time to an answer, for the last number of requests;"
      << " WHOLE: MEAN with\nwhole replicas. ONE: a request alone; PERIOD:"
      << " between two answers of a group.\n\n";
    for (auto& r : ranges(of))
      std::cout << drawing_of(*r.plan, costs_, drawing_width) << " from "
                << r.first << ", " << config_of(*r.plan) << "\n";
    std::cout << std::flush;
  }

  json parts_json(uint64_t requests) const {
    auto out = json::array();
    for (size_t parts = 1; parts <= most_parts(); ++parts)
      out.push_back(plan_json(plans_.best_of(parts, requests, cold_devices()),
                              requests, cold_devices()));
    return out;
  }

  void print_parts(uint64_t requests) const {
    auto* best = &plans_.best(requests, cold_devices());
    table rows{
      {"", "PARTS", "COLD", "PERIOD", "ONE", "MEAN", "WHOLE", "LAYERS"}};
    for (size_t parts = 1; parts <= most_parts(); ++parts) {
      auto& plan = plans_.best_of(parts, requests, cold_devices());
      rows.push_back(row(&plan == best ? "best" : "", plan, requests));
    }
    print_table(rows);
    std::cout << "\n"
              << drawing_of(*best, costs_, drawing_width) << " best, "
              << config_of(*best) << "\n";
  }

  void print(const deployment& x, uint64_t requests) const {
    std::ostringstream out;
    out << "On " << counted(x_.devices, "device") << ", for "
        << counted(requests, "request") << ": ";
    if (x.primed > 0)
      out << x.primed << " full where the model is in memory, ";
    if (x.groups > 0)
      out << x.groups << (x.groups == 1 ? " group" : " groups") << " of "
          << x.plan->parts() << " parts ("
          << layers_of(*x.plan, costs_.layers()) << "), ";
    if (x.full > 0)
      out << x.full << " full, ";
    out << "a mean answer after " << format_seconds(x.mean_response);
    std::cout << wrapped(out.str(), terminal_width(), 2) << std::endl;
  }

private:
  static constexpr size_t drawing_width = 60;

  /// Devices for new groups. On a device with the model in memory, a whole
  /// replica starts instead.
  uint64_t cold_devices() const { return x_.devices - x_.primed; }

  size_t most_parts() const {
    return std::min<uint64_t>(plans_.max_parts(), cold_devices());
  }

  std::vector<partition_planner::range> ranges(request_range of) const {
    if (cold_devices() == 0)
      return {};
    auto out = plans_.ranges(cold_devices(), of.last);
    std::erase_if(out, [&](auto& r) { return r.last < of.first; });
    out.front().first = of.first;
    return out;
  }

  std::vector<std::string> row(std::string name, const partition& plan,
                               uint64_t requests) const {
    auto whole =
      mean_response(plans_.plans_of(1).front(), requests, cold_devices());
    return {std::move(name),
            std::to_string(plan.parts()),
            format_seconds(plan.cold),
            format_seconds(plan.period),
            format_seconds(plan.inference),
            format_seconds(mean_response(plan, requests, cold_devices())),
            format_seconds(whole),
            layers_of(plan, costs_.layers())};
  }

  const plan_options& x_;
  const layer_costs& costs_;
  const partition_planner& plans_;
};

result<profile> profile_for(const plan_options& x) {
  return read_profile(x.profiles.empty()
                        ? program_folder() + "/profiles/flashpoint.yaml"
                        : x.profiles,
                      x.model, x.layers);
}

/// The device kind of --device; default: the only kind in the profile.
result<std::string> device_for(const plan_options& x, const profile& of) {
  auto kinds = devices_in(of);
  if (x.device.empty() ? kinds.size() == 1 : kinds.contains(x.device))
    return x.device.empty() ? *kinds.begin() : x.device;
  auto found = x.device.empty() ? "none" : shown(x.device);
  return error{ec::bad_request,
               "--device: found " + found + ", expected one of what the profile"
                 + " of " + x.model + " is of: "
                 + joined(kinds, ", ", [](auto& kind) { return kind; }),
               {}};
}

result<layer_costs> costs_for(const plan_options& x) {
  auto rate = parse_bandwidth(x.network);
  if (!rate)
    return std::move(rate.failure()).within("--network");
  auto latency = parse_duration(x.latency);
  if (!latency)
    return std::move(latency.failure()).within("--latency");
  if (rate->bytes_per_second <= 0)
    return error{
      ec::bad_request, "--network " + x.network + ": expected more than 0", {}};
  auto found = profile_for(x);
  if (!found && x.profiles.empty())
    return error{
      found.failure().code,
      found.failure().text
        + ". For another model: profile it ('measure' in"
          " actor-shell), write the profile to a file ('export-profiles'),"
          " and give the file with --profiles",
      {}};
  if (!found)
    return found.failure();
  auto device = device_for(x, *found);
  if (!device)
    return device.failure();
  print_warnings(x.model, remarks_on(*found));
  return layer_costs_of(*found, *device, x.rows, {*rate, *latency});
}

int run_plan(const plan_options& x, const common_options& common) {
  auto range = parse_range(x.requests);
  if (!range)
    return wrong_call(common, range.failure());
  if (!std::isfinite(x.rows))
    return wrong_call(common,
                      {ec::bad_request, "--rows: expected a number", {}});
  if (x.primed > x.devices)
    return wrong_call(common, {ec::bad_request,
                               "--primed " + std::to_string(x.primed)
                                 + ": expected at most the "
                                 + std::to_string(x.devices) + " of --devices",
                               {}});
  auto costs = costs_for(x);
  if (!costs)
    return fail(common, costs.failure());
  partition_planner plans{*costs, *from_string<pipelining>(x.mode)};
  plan_printer printer{x, *costs, plans};
  auto use = best_deployment(plans, {.requests = range->last,
                                     .devices = x.devices,
                                     .primed = x.primed,
                                     .primed_cold = costs->primed_cold});
  if (common.json)
    std::cout << json_text(json{{"model", x.model},
                                {"devices", x.devices},
                                {"ranges", printer.ranges_json(*range)},
                                {"by_parts", printer.parts_json(range->last)},
                                {"deployment", plan_json(use)}})
              << std::endl;
  else if (x.primed < x.devices)
    range->first == range->last ? printer.print_parts(range->last)
                                : printer.print_ranges(*range);
  if (!common.json)
    printer.print(use, range->last);
  return exit_ok;
}

} // namespace

void add_cuts_verb(CLI::App& model, common_options& common, verb_action& run) {
  auto x = std::make_shared<plan_options>();
  auto* verb = add_subverb(
    model, "cuts", "Where to cut a model, by the number of waiting requests",
    common, run, [=, &common] { return run_plan(*x, common); });
  verb->add_option("model", x->model, "Model of the profiles")->required();
  verb->add_option(
    "--profiles", x->profiles,
    "File of profiles with layers; default: Flashpoint's models");
  verb->add_option(
    "--layers", x->layers,
    "Hash of the model's layers, if the file has several profiles");
  verb->add_option("--device", x->device,
                   "Kind of the devices; default: the profile's only one");
  verb
    ->add_option("--requests", x->requests,
                 "Number of waiting requests: a range, or one number for each "
                 "number of parts")
    ->capture_default_str();
  verb
    ->add_option("--devices", x->devices, "Number of devices for new replicas")
    ->transform(whole_number(1, 100'000))
    ->capture_default_str();
  verb
    ->add_option("--primed", x->primed,
                 "Number of these devices with the model in memory: whole "
                 "replicas start there; the table is for the other devices")
    ->transform(whole_number(0, 100'000))
    ->capture_default_str();
  verb->add_option("--rows", x->rows, "Rows of a request")
    ->check(CLI::Range(1.0, 1048576.0))
    ->capture_default_str();
  verb->add_option("--network", x->network, "Bandwidth between two hosts")
    ->capture_default_str();
  verb->add_option("--latency", x->latency, "Latency between two hosts")
    ->capture_default_str();
  std::vector<std::string> modes;
  for (auto name : names_of(pipelining{}))
    modes.emplace_back(name);
  verb
    ->add_option("--pipelining", x->mode,
                 "What the stages of a group do at the same time")
    ->check(CLI::IsMember(modes))
    ->capture_default_str();
}

} // namespace millrace
