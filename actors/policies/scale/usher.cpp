// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/usher.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "actors/policies/scale/count_policy.hpp"
#include "actors/policies/scale/named_numbers.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/costs.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr auto execute_seconds = "execute_seconds";

error not_as_expected(const std::string& expected, const std::string& found) {
  return {ec::bad_request, expected + ", found " + shown(found), {}};
}

/// Reads 'bert resnet50; vgg19'.
result<std::vector<std::vector<std::string>>>
parse_groups(const std::string& text, uint64_t group_size) {
  std::vector<std::vector<std::string>> out;
  if (text.empty())
    return out;
  std::set<std::string> seen;
  for (auto item : split(text, ';')) {
    std::istringstream words{std::string{item}};
    auto& group = out.emplace_back();
    for (std::string model; words >> model; group.push_back(model))
      if (!seen.insert(model).second)
        return not_as_expected("groups: expected each model once", model);
    if (group.empty() || group.size() > group_size)
      return not_as_expected("groups: expected 1 to "
                               + std::to_string(group_size)
                               + " models (group_size) in a group",
                             std::string{item});
  }
  return out;
}

std::string rate_text(double x) {
  return format_number(std::round(x * 100) / 100);
}

/// Latest acceptable latency of a request, in seconds.
double slo_of(const model_settings& x) {
  return to_seconds(x.slo > 0us ? x.slo : x.policy.deadline);
}

/// The group of a model with one replica on a device; no replica for an empty
/// device.
replica_group group_on(const model_state& model, const std::string& device) {
  auto is = model;
  is.settings.parts = 1;
  is.settings.cuts.clear();
  is.settings.replicas_of_parts.clear();
  is.settings.complete = false;
  is.settings.replicas = device.empty() || !model.elastic ? 0 : 1;
  // A whole model is always a valid cut.
  auto out = configured_groups(is)->front();
  if (device.empty())
    return out;
  out.device = device;
  out.id += "/@" + device;
  out.cut = "@" + device;
  return out;
}

} // namespace

struct usher_scaling::problem {
  const cluster_snapshot& in;
  std::vector<const model_state*> models{}; ///< of the scope
  std::string kind{};
  std::vector<std::string> devices{}; ///< NODE/ID
  double memory = 0;                  ///< bytes of a device; 0: unknown
  std::map<std::string, double> rates{};
  std::vector<usher_model> planned{};
  std::vector<const model_state*> states{}; ///< of the planned models
  proposal out{};
};

result<std::shared_ptr<const scaling_policy>>
usher_scaling::make(const std::string& scope, usher_options options) {
  if (options.metric.empty())
    options.metric = "ao_percent";
  auto rates = parse_named_numbers("rates", options.rates);
  if (!rates)
    return rates.failure();
  auto groups = parse_groups(options.groups, options.group_size);
  if (!groups)
    return groups.failure();
  return std::shared_ptr<const scaling_policy>{std::make_shared<usher_scaling>(
    scope, std::move(options), std::move(*rates), std::move(*groups))};
}

/// Sets the kind of the devices, and the devices by name. The kind stays empty
/// when no kind or several kinds are profiled; the models then have no plan.
void usher_scaling::find_kind(problem& task) const {
  std::set<std::string> kinds;
  for (auto& [name, node] : task.in.nodes)
    for (auto& device : node->devices)
      for (auto* model : task.models)
        if (!profiled_batches(task.in.costs.get(),
                              {&model->bundle, {}, device.kind, 0, 1},
                              options_.metric)
               .empty())
          kinds.insert(device.kind);
  if (!options_.device.empty())
    task.kind = options_.device;
  else if (kinds.size() == 1)
    task.kind = *kinds.begin();
  else if (!kinds.empty())
    for (auto* model : task.models)
      task.out.refused[model->settings.model] =
        "the profiles have several kinds of device: "
        + joined(kinds, ", ", [](auto& y) { return y; })
        + " (expected one kind in option device)";
  for (auto& [name, node] : task.in.nodes)
    for (auto& device : node->devices)
      if (device.kind == task.kind && !node->draining) {
        task.devices.push_back(name + "/" + device.id);
        auto memory = static_cast<double>(device.memory.value);
        task.memory = task.memory > 0 && memory > 0
                        ? std::min(task.memory, memory)
                        : std::max(task.memory, memory);
      }
}

/// Sets configured rates, and measured rates once all gateways have reported
/// for the whole window.
void usher_scaling::find_rates(problem& task, policy_memory& memory,
                               double now) const {
  auto& kept = memory.values;
  auto window = to_seconds(options_.window);
  auto renewed = kept.find("renewed");
  auto due = renewed == kept.end()
             || (options_.renew > 0us
                 && now >= renewed->second + to_seconds(options_.renew));
  auto measures = due && to_seconds(task.in.covered) >= window;
  if (measures)
    kept["renewed"] = now;
  for (auto* model : task.models) {
    auto& name = model->settings.model;
    auto key = name + "/rate";
    if (auto given = rates_.find(name); given != rates_.end()) {
      task.rates[name] = given->second;
      continue;
    }
    if (options_.rate > 0) {
      task.rates[name] = options_.rate;
      continue;
    }
    auto load = task.in.loads.find(name);
    if (load != task.in.loads.end() && (measures || !kept.contains(key))
        && to_seconds(task.in.covered) >= window)
      kept[key] = mean_rate(load->second->seconds, static_cast<size_t>(window));
    if (auto known = kept.find(key); known != kept.end())
      task.rates[name] = known->second;
  }
}

/// Adds a model with a known rate and profile.
void usher_scaling::add_model(problem& task, const model_state& model) const {
  auto& name = model.settings.model;
  auto* book = task.in.costs.get();
  cost_query query{&model.bundle, {}, task.kind, 0, 1};
  auto sizes = profiled_batches(book, query, options_.metric);
  auto refuse = [&](std::string why) {
    task.out.refused[name] = std::move(why);
  };
  if (model.version == 0)
    return;
  if (sizes.empty())
    return refuse("no profile has " + options_.metric + " on "
                  + (task.kind.empty() ? "any device" : task.kind));
  auto rate = task.rates.find(name);
  if (rate == task.rates.end())
    return refuse("its rate of arrivals is not known yet");
  usher_model out{name, model.elastic ? rate->second : 0, {}};
  for (auto rows : sizes) {
    auto seconds = profiled(book, query, execute_seconds, rows);
    if (!seconds || seconds->value <= 0
        || seconds->value > slo_of(model.settings))
      continue;
    auto bytes = memory_bytes(book, query, rows);
    auto part = bytes && task.memory > 0 ? bytes->value / task.memory * 100 : 0;
    out.batches.push_back({static_cast<uint64_t>(rows), rows / seconds->value,
                           profiled(book, query, options_.metric, rows)->value,
                           part});
  }
  task.planned.push_back(std::move(out));
  task.states.push_back(&model);
}

/// Configured groups, or groups by demand. A model outside all configured
/// groups has no plan.
usher_groups usher_scaling::groups_of(problem& task) const {
  if (groups_.empty())
    return group_by_demand(task.planned, options_.group_size);
  usher_groups out;
  std::set<size_t> named;
  for (auto& names : groups_) {
    auto& group = out.emplace_back();
    for (auto& name : names)
      for (size_t i = 0; i < task.planned.size(); ++i)
        if (task.planned[i].name == name) {
          group.push_back(i);
          named.insert(i);
        }
  }
  for (size_t i = 0; i < task.planned.size(); ++i)
    if (!named.contains(i))
      task.out.refused[task.planned[i].name] = "option groups does not name it";
  return out;
}

/// Writes the groups and reasons of all planned models.
void usher_scaling::write(problem& task, const usher_plan& plan) const {
  auto total = "; all models " + rate_text(plan.goodput) + " on "
               + counted(plan.devices, "device")
               + (plan.complete ? "" : ", of the placements tried");
  for (size_t i = 0; i < task.planned.size(); ++i) {
    auto& model = task.planned[i];
    if (task.out.refused.contains(model.name))
      continue;
    std::string where;
    double rate = 0;
    for (auto& r : plan.replicas) {
      if (r.model != i)
        continue;
      auto group = group_on(*task.states[i], task.devices[r.device]);
      group.share = options_.shares ? std::min(1.0, r.batch.compute / 100) : 0;
      if (group.batch_max != 0)
        group.batch_max = std::max(group.batch_max, r.batch.rows);
      group.tuned.batch = r.batch.rows;
      group.tuned.rows_max = group.batch_max;
      group.tuned.concurrency = options_.concurrency;
      where += (where.empty() ? "batch " + std::to_string(r.batch.rows) + " on "
                              : ", ")
               + task.devices[r.device];
      rate += r.batch.rate;
      task.out.groups.push_back(std::move(group));
    }
    if (where.empty())
      task.out.groups.push_back(group_on(*task.states[i], {}));
    task.out.reasons[model.name] = (where.empty() ? "not served" : where) + ": "
                                   + rate_text(std::min(rate, model.rate))
                                   + " of " + rate_text(model.rate)
                                   + " requests/s" + total;
  }
}

proposal usher_scaling::propose(const cluster_snapshot& snapshot,
                                policy_memory& memory, random_stream&,
                                timestamp now) const {
  problem x{snapshot};
  for (auto& name : snapshot.scopes.at(scope())->models)
    x.models.push_back(snapshot.models.at(name).get());
  find_kind(x);
  find_rates(x, memory, seconds_of(now));
  for (auto* model : x.models)
    if (!x.out.refused.contains(model->settings.model))
      add_model(x, *model);
  auto groups = groups_of(x);
  auto plan = make_usher_plan(x.planned, groups, x.devices.size(),
                              {options_.group_size, options_.factors,
                               options_.heavy, options_.placements});
  write(x, plan);
  end_period(snapshot, memory, now);
  return std::move(x.out);
}

} // namespace millrace
