// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/infaas.hpp"

#include <algorithm>
#include <cmath>

#include "actors/policies/scale/configured_groups.hpp"
#include "actors/policies/scale/count_policy.hpp"
#include "actors/policies/scale/named_numbers.hpp"
#include "actors/policies/scale/variant_plan.hpp"
#include "actors/policies/state/costs.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Devices that a variant may use.
struct device_supply {
  std::string kind;
  uint64_t lanes = 1;
  uint64_t room = 0; ///< replicas that fit beside those that are there
};

/// Room by units alone: where replicas take none, the limits of the model and
/// the placement decide.
device_supply supply_for(const cluster_snapshot& in,
                         const model_settings& settings) {
  constexpr uint64_t any = 10'000;
  device_supply out{settings.device};
  for (auto& [name, node] : in.nodes) {
    if (node->draining)
      continue;
    for (auto& device : node->devices) {
      if (!selects_device(settings.device, name, device))
        continue;
      out.kind = device.kind;
      out.lanes = device.lanes;
      if (settings.units == 0 || device.units == 0) {
        out.room = any;
        continue;
      }
      uint64_t used = 0;
      for (auto& replica : node->replicas)
        if (replica.what.device == device.id
            && replica.state != replica_condition::failed)
          used += replica.what.units;
      out.room +=
        (device.units - std::min(device.units, used)) / settings.units;
    }
  }
  return out;
}

/// Seconds to load a replica: by starts from any location, else by the profile.
double load_seconds(const cost_book* book, const cost_query& x) {
  for (auto* source : {"disk", "memory", "hosts", "stores"})
    if (auto found = start_seconds(book, x, source))
      return found->fetch + found->load + found->warm_up;
  return 0;
}

} // namespace

struct infaas_scaling::variant {
  const model_state& model;
  const model_load& load;
  replica_group group{};
  variant_facts facts{};
  variant_usage usage{};
  uint64_t ready = 0;
  bool usable = false; ///< accurate enough, and its costs are known

  /// Requests wait, and no replica is ready.
  bool is_awaited() const {
    return load.pressure || (load.waiting > 0 && ready == 0);
  }
};

struct infaas_scaling::decision_on {
  const cluster_snapshot& in;
  policy_memory& memory;
  double now; ///< seconds
  variant_goal goal{};
  double arrivals = 0; ///< per second
  std::vector<variant> variants{};
  std::string reason{};

  std::string key(const variant& v, const char* name) const {
    return v.group.model + "/" + name;
  }
  /// The facts that `cheapest_addition` and the others take.
  std::vector<variant_facts> facts() const {
    std::vector<variant_facts> out;
    for (auto& v : variants) {
      out.push_back(v.facts);
      if (!v.usable)
        out.back().room = 0;
      if (v.facts.saturation <= 0) // of unknown costs
        out.back().saturation = 1e-9;
    }
    return out;
  }
};

result<std::shared_ptr<const scaling_policy>>
infaas_scaling::make(const std::string& scope, const infaas_options& x) {
  auto prices = parse_prices(x.prices);
  if (!prices)
    return prices.failure();
  return std::shared_ptr<const scaling_policy>{
    std::make_shared<infaas_scaling>(scope, x, std::move(*prices))};
}

/// Times by the profile alone, which contention does not change; without a
/// profile by the averages.
void infaas_scaling::find_costs(variant& v, const decision_on& x) const {
  auto& settings = v.model.settings;
  auto supply = supply_for(x.in, settings);
  auto max = settings.scaling.max;
  v.facts.room = std::min(supply.room, max - std::min(max, v.facts.count));
  cost_query query{&v.model.bundle, v.group.layers, supply.kind, settings.share,
                   settings.threads};
  auto batch =
    static_cast<double>(std::max<uint64_t>(1, settings.policy.batch));
  auto* book = x.in.costs.get();
  std::optional<cost_value> time;
  if (book != nullptr) {
    cost_book profiles{book->version, book->profiles, {}};
    time = execution_seconds(&profiles, query, batch);
  }
  if (!time)
    time = execution_seconds(book, query, batch);
  if (!time || time->value <= 0)
    return;
  auto at_once = static_cast<double>(
    settings.concurrency > 0 ? settings.concurrency : supply.lanes);
  auto price = prices_.at(supply.kind);
  v.facts.latency = time->value;
  v.facts.saturation = at_once * batch / time->value;
  v.facts.cost = settings.units > 0
                   ? price * static_cast<double>(settings.units)
                 : settings.share > 0 ? price * settings.share
                                      : price;
  v.facts.load = load_seconds(book, query);
  v.usage.ready = v.ready;
  v.usage.saturation = v.facts.saturation;
  v.usage.profiled = time->value;
  for (auto& stage : v.load.stages)
    if (stage.batches > 0) {
      constexpr double seconds = 2; // that stage_load counts batches over
      v.usage.served =
        stage.batch * static_cast<double>(stage.batches) / seconds;
      v.usage.latency = stage.run;
    }
  v.usable = v.model.bundle.accuracy.value_or(0) >= options_.accuracy;
}

result<infaas_scaling::variant>
infaas_scaling::observe(const model_state& model, const decision_on& x) const {
  static const model_load nothing;
  auto& settings = model.settings;
  auto load = x.in.loads.find(settings.model);
  variant out{model, load == x.in.loads.end() ? nothing : *load->second};
  auto groups = configured_groups(model);
  if (!groups)
    return groups.failure();
  if (groups->size() != 1)
    return error{ec::bad_request,
                 "parts: policy infaas scales whole replicas (expected 1)",
                 {}};
  out.group = std::move(groups->front());
  auto kind = supply_for(x.in, settings).kind;
  if (!prices_.contains(kind))
    return error{ec::bad_request,
                 "prices: expected the price of device kind " + shown(kind)
                   + " of variant " + settings.model
                   + " (a variant names its kind in models[].device)",
                 {}};
  uint64_t there = 0;
  for (auto& g : out.load.groups)
    if (g.group.id == out.group.id) {
      out.ready += g.ready;
      there += g.ready + g.starting;
    }
  auto remembered = x.memory.values.find(x.key(out, "count"));
  auto count = remembered == x.memory.values.end()
                 ? there
                 : static_cast<uint64_t>(remembered->second);
  // A new controller learns of the replicas that run node by node.
  if (x.in.covered < options_.window)
    count = std::max(count, there);
  auto& limits = settings.scaling;
  if (model.elastic)
    out.facts.count = std::clamp(count, limits.min, limits.max);
  if (model.elastic && model.version != 0)
    find_costs(out, x);
  return out;
}

/// Starts what the load needs. False: the capacity is enough, or nothing fits.
bool infaas_scaling::add(decision_on& x) const {
  auto facts = x.facts();
  for (size_t i = 0; i < facts.size(); ++i)
    if (state_of(x.variants[i].usage, 1 / options_.slack, options_.excess)
        == variant_state::interfered)
      facts[i].saturation *=
        x.variants[i].usage.profiled / x.variants[i].usage.latency;
  std::optional<variant_plan> plan;
  if (options_.plan == variant_planning::exact
      && x.goal.rate > capacity_of(facts)) {
    auto limited = facts;
    for (auto& y : limited) // what runs stays until scaling down
      if (!options_.switches && y.count == 0)
        y.room = 0;
    plan = cheapest_plan(limited, x.goal);
  }
  if (!plan)
    plan = cheapest_addition(facts, x.goal, options_.switches);
  if (!plan)
    return false;
  for (size_t i = 0; i < facts.size(); ++i)
    if (auto n = plan->change[i]; n > 0) {
      auto& v = x.variants[i];
      v.facts.count += static_cast<uint64_t>(n);
      v.facts.room -= static_cast<uint64_t>(n);
      x.reason += "; adds " + std::to_string(n) + " of " + v.group.model
                  + " at cost " + format_number(plan->cost);
    }
  return true;
}

/// Requests wait for a variant that has no replica: they asked for an accuracy,
/// or for the variant by its name.
void infaas_scaling::start_awaited(decision_on& x) const {
  for (auto& v : x.variants)
    if (v.facts.count == 0 && v.facts.room > 0 && v.is_awaited()) {
      ++v.facts.count;
      --v.facts.room;
      x.reason += "; requests wait for " + v.group.model;
    }
}

void infaas_scaling::reduce(decision_on& x) const {
  std::map<std::string, bool> feasible;
  auto all = cheaper_plans(x.facts(), x.goal, options_.switches);
  std::erase_if(all, [&](auto& y) {
    auto& v = x.variants[y.from];
    auto least =
      std::max<uint64_t>(v.model.settings.scaling.min, v.is_awaited() ? 1 : 0);
    return v.facts.count <= least || (y.to && least > 0);
  });
  for (auto& y : all)
    feasible[x.variants[y.from].group.model] = true;
  for (auto& v : x.variants) {
    auto key = x.key(v, "cheaper_since");
    if (!feasible[v.group.model])
      x.memory.values.erase(key);
    else
      x.memory.values.try_emplace(key, x.now);
  }
  if (all.empty() || x.in.covered < options_.window)
    return;
  auto& best = all.front();
  auto& from = x.variants[best.from];
  auto wait = std::max(to_seconds(options_.wait), from.facts.load);
  if (x.now - x.memory.values.at(x.key(from, "cheaper_since")) < wait)
    return;
  if (best.to) {
    auto& to = x.variants[*best.to];
    to.facts.count += best.added;
    x.reason += "; " + to.group.model + " in place of " + from.group.model;
    return; // which ends once the others are ready
  }
  double ready = 0;
  for (auto& v : x.variants)
    ready += v.facts.saturation
             * static_cast<double>(std::min(v.ready, v.facts.count));
  if (from.ready >= from.facts.count)
    ready -= from.facts.saturation;
  if (ready < x.goal.rate)
    return;
  --from.facts.count;
  x.reason += "; one of " + from.group.model + " less";
}

void infaas_scaling::decide(decision_on& x) const {
  auto seconds = static_cast<size_t>(to_seconds(options_.window));
  auto slo = to_seconds(options_.slo);
  auto load = 0.0;
  auto wanted = false;
  for (auto& v : x.variants) {
    x.arrivals += mean_rate(v.load.seconds, seconds);
    if (options_.drain > 0us)
      load += static_cast<double>(v.load.waiting) / to_seconds(options_.drain);
    wanted |= v.load.pressure || v.load.waiting > 0;
    auto its = to_seconds(v.model.settings.slo);
    if (options_.slo == 0us && its > 0)
      slo = slo > 0 ? std::min(slo, its) : its;
  }
  constexpr double least = 1e-6;
  load += x.arrivals;
  x.goal = {options_.slack * std::max(load, wanted ? least : 0), slo,
            options_.lambda};
  x.reason = format_number(std::round(x.arrivals * 10) / 10) + " requests/s";
  for (auto& v : x.variants)
    x.reason += ", " + v.group.model + " "
                + std::string{to_string(
                  state_of(v.usage, 1 / options_.slack, options_.excess))};
  if (!add(x)) {
    reduce(x);
    start_awaited(x);
  } else {
    for (auto& v : x.variants)
      x.memory.values.erase(x.key(v, "cheaper_since"));
  }
}

void infaas_scaling::write(decision_on& x, proposal& out) const {
  for (auto& v : x.variants) {
    auto& limits = v.model.settings.scaling;
    auto count =
      v.model.elastic ? std::clamp(v.facts.count, limits.min, limits.max) : 0;
    x.memory.values[x.key(v, "count")] = static_cast<double>(count);
    v.group.count = count;
    v.group.least = std::min(count, limits.min);
    out.reasons[v.group.model] = x.reason;
    out.variants[v.group.model] = {
      state_of(v.usage, 1 / options_.slack, options_.excess),
      v.facts.cost,
      v.facts.load,
      v.facts.latency,
      v.facts.room > 0 || count > 0,
      v.facts.saturation};
    out.groups.push_back(std::move(v.group));
  }
}

proposal infaas_scaling::propose(const cluster_snapshot& snapshot,
                                 policy_memory& memory, random_stream&,
                                 timestamp now) const {
  proposal out;
  decision_on x{snapshot, memory, seconds_of(now)};
  for (auto& name : snapshot.scopes.at(scope())->models) {
    auto observed = observe(*snapshot.models.at(name), x);
    if (observed)
      x.variants.push_back(std::move(*observed));
    else
      out.refused[name] = observed.failure().text;
  }
  decide(x);
  write(x, out);
  end_period(snapshot, memory, now);
  return out;
}

} // namespace millrace
