// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/infaas.hpp"

#include <algorithm>
#include <cmath>

#include "actors/policies/scale/count_policy.hpp"
#include "actors/policies/scale/named_numbers.hpp"
#include "actors/policies/scale/variant_plan.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/costs.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Devices that a variant may use.
struct device_supply {
  std::string kind;
  uint64_t lanes = 1;
  uint64_t room = 0; ///< replicas that fit beside the present ones
};

/// Room by units only. Without units, the limits of the model and the placement
/// decide.
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

/// Seconds to load a replica: from starts with any source, else from the
/// profile.
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

  /// Whether requests wait and no replica is ready.
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
  /// Input of `cheapest_addition` and the other plan functions.
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
infaas_scaling::make(const std::string& scope, const infaas_options& options) {
  auto prices = parse_prices(options.prices);
  if (!prices)
    return prices.failure();
  return std::shared_ptr<const scaling_policy>{
    std::make_shared<infaas_scaling>(scope, options, std::move(*prices))};
}

/// Sets times from the profile, which contention does not change; without a
/// profile from the averages.
void infaas_scaling::find_costs(variant& v, const decision_on& decision) const {
  auto& settings = v.model.settings;
  auto supply = supply_for(decision.in, settings);
  auto max = settings.scaling.max;
  v.facts.room = std::min(supply.room, max - std::min(max, v.facts.count));
  cost_query query{&v.model.bundle, v.group.layers, supply.kind, settings.share,
                   settings.threads};
  auto batch =
    static_cast<double>(std::max<uint64_t>(1, settings.policy.batch));
  auto* book = decision.in.costs.get();
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
      constexpr double seconds = 2; // window of stage_load
      v.usage.served =
        stage.batch * static_cast<double>(stage.batches) / seconds;
      v.usage.latency = stage.run;
    }
  v.usable = v.model.bundle.accuracy.value_or(0) >= options_.accuracy;
}

result<infaas_scaling::variant>
infaas_scaling::observe(const model_state& model,
                        const decision_on& decision) const {
  static const model_load nothing;
  auto& settings = model.settings;
  auto load = decision.in.loads.find(settings.model);
  variant out{model, load == decision.in.loads.end() ? nothing : *load->second};
  auto groups = configured_groups(model);
  if (!groups)
    return groups.failure();
  if (groups->size() != 1)
    return error{ec::bad_request,
                 "parts: policy infaas scales whole replicas (expected 1)",
                 {}};
  out.group = std::move(groups->front());
  auto kind = supply_for(decision.in, settings).kind;
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
  auto remembered = decision.memory.values.find(decision.key(out, "count"));
  auto count = remembered == decision.memory.values.end()
                 ? there
                 : static_cast<uint64_t>(remembered->second);
  // A new controller discovers the running replicas node by node.
  if (decision.in.covered < options_.window)
    count = std::max(count, there);
  auto& limits = settings.scaling;
  if (model.elastic)
    out.facts.count = std::clamp(count, limits.min, limits.max);
  if (model.elastic && model.version != 0)
    find_costs(out, decision);
  return out;
}

/// Adds the instances that the load needs. Returns false when the capacity is
/// enough, or no instance fits.
bool infaas_scaling::add(decision_on& decision) const {
  auto facts = decision.facts();
  for (size_t i = 0; i < facts.size(); ++i)
    if (state_of(decision.variants[i].usage, 1 / options_.slack,
                 options_.excess)
        == variant_state::interfered)
      facts[i].saturation *= decision.variants[i].usage.profiled
                             / decision.variants[i].usage.latency;
  std::optional<variant_plan> plan;
  if (options_.plan == variant_planning::exact
      && decision.goal.rate > capacity_of(facts)) {
    auto limited = facts;
    for (auto& y : limited) // running instances stay until scaling down
      if (!options_.switches && y.count == 0)
        y.room = 0;
    plan = cheapest_plan(limited, decision.goal);
  }
  if (!plan)
    plan = cheapest_addition(facts, decision.goal, options_.switches);
  if (!plan)
    return false;
  for (size_t i = 0; i < facts.size(); ++i)
    if (auto n = plan->change[i]; n > 0) {
      auto& v = decision.variants[i];
      v.facts.count += static_cast<uint64_t>(n);
      v.facts.room -= static_cast<uint64_t>(n);
      decision.reason += "; adds " + std::to_string(n) + " of " + v.group.model
                         + " at cost " + format_number(plan->cost);
    }
  return true;
}

/// Starts a replica of each variant with waiting requests and no replica. The
/// requests need its accuracy, or name the variant.
void infaas_scaling::start_awaited(decision_on& decision) const {
  for (auto& v : decision.variants)
    if (v.facts.count == 0 && v.facts.room > 0 && v.is_awaited()) {
      ++v.facts.count;
      --v.facts.room;
      decision.reason += "; requests wait for " + v.group.model;
    }
}

void infaas_scaling::reduce(decision_on& decision) const {
  std::map<std::string, bool> feasible;
  auto all = cheaper_plans(decision.facts(), decision.goal, options_.switches);
  std::erase_if(all, [&](auto& y) {
    auto& v = decision.variants[y.from];
    auto least =
      std::max<uint64_t>(v.model.settings.scaling.min, v.is_awaited() ? 1 : 0);
    return v.facts.count <= least || (y.to && least > 0);
  });
  for (auto& y : all)
    feasible[decision.variants[y.from].group.model] = true;
  for (auto& v : decision.variants) {
    auto key = decision.key(v, "cheaper_since");
    if (!feasible[v.group.model])
      decision.memory.values.erase(key);
    else
      decision.memory.values.try_emplace(key, decision.now);
  }
  if (all.empty() || decision.in.covered < options_.window)
    return;
  auto& best = all.front();
  auto& from = decision.variants[best.from];
  auto wait = std::max(to_seconds(options_.wait), from.facts.load);
  if (decision.now
        - decision.memory.values.at(decision.key(from, "cheaper_since"))
      < wait)
    return;
  if (best.to) {
    auto& to = decision.variants[*best.to];
    to.facts.count += best.added;
    decision.reason +=
      "; " + to.group.model + " in place of " + from.group.model;
    return; // `from` ends once the others are ready
  }
  double ready = 0;
  for (auto& v : decision.variants)
    ready += v.facts.saturation
             * static_cast<double>(std::min(v.ready, v.facts.count));
  if (from.ready >= from.facts.count)
    ready -= from.facts.saturation;
  if (ready < decision.goal.rate)
    return;
  --from.facts.count;
  decision.reason += "; one of " + from.group.model + " less";
}

void infaas_scaling::decide(decision_on& decision) const {
  auto seconds = static_cast<size_t>(to_seconds(options_.window));
  auto slo = to_seconds(options_.slo);
  auto load = 0.0;
  auto wanted = false;
  for (auto& v : decision.variants) {
    decision.arrivals += mean_rate(v.load.seconds, seconds);
    if (options_.drain > 0us)
      load += static_cast<double>(v.load.waiting) / to_seconds(options_.drain);
    wanted |= v.load.pressure || v.load.waiting > 0;
    auto its = to_seconds(v.model.settings.slo);
    if (options_.slo == 0us && its > 0)
      slo = slo > 0 ? std::min(slo, its) : its;
  }
  constexpr double least = 1e-6;
  load += decision.arrivals;
  decision.goal = {options_.slack * std::max(load, wanted ? least : 0), slo,
                   options_.lambda};
  decision.reason =
    format_number(std::round(decision.arrivals * 10) / 10) + " requests/s";
  for (auto& v : decision.variants)
    decision.reason +=
      ", " + v.group.model + " "
      + std::string{
        to_string(state_of(v.usage, 1 / options_.slack, options_.excess))};
  if (!add(decision)) {
    reduce(decision);
    start_awaited(decision);
  } else {
    for (auto& v : decision.variants)
      decision.memory.values.erase(decision.key(v, "cheaper_since"));
  }
}

void infaas_scaling::write(decision_on& decision, proposal& out) const {
  for (auto& v : decision.variants) {
    auto& limits = v.model.settings.scaling;
    auto count =
      v.model.elastic ? std::clamp(v.facts.count, limits.min, limits.max) : 0;
    decision.memory.values[decision.key(v, "count")] =
      static_cast<double>(count);
    v.group.count = count;
    v.group.least = std::min(count, limits.min);
    out.reasons[v.group.model] = decision.reason;
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
