// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/paldia.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "actors/policies/scale/named_numbers.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/costs.hpp"
#include "models/contention/law.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Seconds, for a model without an SLO (PALDIA: 200 ms for every workload).
constexpr double standard_slo = 0.2;

/// Lanes of a kind of device, on a node or a machine of a pool; nothing when
/// the cluster has no such device.
std::optional<uint64_t> lanes_of(const cluster_snapshot& in,
                                 const std::string& kind) {
  std::optional<uint64_t> out;
  auto look_at = [&](const std::vector<device_info>& devices) {
    for (auto& d : devices)
      if (d.kind == kind)
        out = std::max<uint64_t>({1, d.lanes, out.value_or(1)});
  };
  for (auto& [name, node] : in.nodes)
    look_at(node->devices);
  for (auto& [name, pool] : in.pools)
    look_at(pool->devices);
  return out;
}

/// The law of `bandwidth` contention for batches of one model.
std::function<double(double)> by_bandwidth(double part, double exponent) {
  contention_settings how;
  how.model = contention_kind::bandwidth;
  how.exponent = exponent;
  std::shared_ptr<const contention_law> law = make_contention_law(how);
  return [law, part](double batches) {
    running_batch one;
    one.metric = [part](std::string_view) { return part; };
    std::vector<running_batch> all(
      std::max<size_t>(1, static_cast<size_t>(std::llround(batches))), one);
    return law->slowdown(all, 0);
  };
}

std::string in_ms(double seconds) {
  return format_number(std::round(1000 * seconds)) + " ms";
}

} // namespace

result<std::shared_ptr<const scaling_policy>>
paldia_scaling::make(const std::string& scope, const paldia_options& options) {
  auto prices = parse_prices(options.prices);
  if (!prices)
    return prices.failure();
  std::vector<priced_kind> kinds;
  for (auto& [kind, price] : *prices)
    kinds.push_back({kind, price});
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](auto& a, auto& b) { return a.price < b.price; });
  return std::shared_ptr<const scaling_policy>{
    std::make_shared<paldia_scaling>(scope, options, std::move(kinds))};
}

/// The same load with a reserve above the forecast.
shared_load paldia_scaling::with_reserve(shared_load load) const {
  auto n = static_cast<double>(load.requests);
  load.requests += static_cast<uint64_t>(options_.reserve * std::sqrt(n));
  return load;
}

/// Lanes of each kind, in the order of prices; nothing for a kind that the
/// cluster lacks.
std::vector<std::optional<uint64_t>>
paldia_scaling::lanes_of_kinds(const cluster_snapshot& in) const {
  std::vector<std::optional<uint64_t>> out;
  for (auto& x : kinds_)
    out.push_back(lanes_of(in, x.kind));
  return out;
}

paldia_scaling::kind_facts paldia_scaling::facts_on(const cluster_snapshot& in,
                                                    const model_state& model,
                                                    const std::string& kind,
                                                    uint64_t lanes) const {
  kind_facts out;
  const cost_query what{&model.bundle, whole_of(model.bundle), kind};
  auto rows =
    static_cast<double>(std::max<uint64_t>(1, model.settings.policy.batch));
  auto solo = execution_seconds(in.costs.get(), what, rows);
  if (!solo)
    return out;
  out.solo = solo->value;
  auto measured = options_.law == paldia_law::profiled
                    ? contention_of(in.costs.get(), what)
                    : std::nullopt;
  auto part = profiled(in.costs.get(), what, "bandwidth_share", rows);
  if (!measured && !part) { // for example a CPU
    out.slowdowns = {1};
    return out;
  }
  std::function<double(double)> law;
  if (measured)
    law = [&](double k) { return measured->slowdown(rows, k); };
  else
    law = by_bandwidth(part->value, options_.law == paldia_law::superlinear
                                      ? options_.exponent
                                      : 0);
  for (uint64_t k = 1; k <= lanes; ++k)
    out.slowdowns.push_back(law(static_cast<double>(k)));
  return out;
}

/// Costs of a model by kind; computed again after a change of costs or of the
/// cluster.
const std::vector<paldia_scaling::kind_facts>&
paldia_scaling::facts_of(const cluster_snapshot& in, const model_state& model,
                         const lane_list& lanes) const {
  auto& name = model.settings.model;
  auto find = [&](auto& all) {
    auto i = all.find(name);
    return i == all.end() ? nullptr : i->second;
  };
  known_costs now{in.costs ? find(in.costs->profiles) : nullptr,
                  in.costs ? find(in.costs->averages) : nullptr,
                  model.settings.policy.batch, lanes};
  auto& is = facts_[name];
  if (is.facts.empty() || is.of != now) {
    is.facts.clear();
    for (size_t i = 0; i < kinds_.size(); ++i)
      is.facts.push_back(lanes[i]
                           ? facts_on(in, model, kinds_[i].kind, *lanes[i])
                           : kind_facts{});
    is.of = std::move(now);
  }
  return is.facts;
}

std::vector<paldia_scaling::candidate>
paldia_scaling::candidates_for(const cluster_snapshot& in,
                               const model_state& model, uint64_t requests,
                               const lane_list& lanes) const {
  std::vector<candidate> out;
  auto& settings = model.settings;
  auto& facts = facts_of(in, model, lanes);
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (facts[i].slowdowns.empty())
      continue;
    shared_load x;
    x.requests = std::max<uint64_t>(1, requests);
    x.batch = std::max<uint64_t>(1, settings.policy.batch);
    x.solo = facts[i].solo;
    x.slo = settings.slo > 0us ? to_seconds(settings.slo) : standard_slo;
    x.at_once_max = facts[i].slowdowns.size();
    x.slowdown = [by = &facts[i].slowdowns](double k) {
      auto last = by->size() - 1;
      return (*by)[std::min(last, static_cast<size_t>(std::max(k, 1.0)) - 1)];
    };
    candidate found;
    found.kind = i;
    found.split = options_.sharing == sharing_mode::time
                    ? split_of(x, x.requests - std::min(x.requests, x.batch))
                  : options_.sharing == sharing_mode::space
                    ? split_of(x, 0)
                    : best_split(x, options_.objective);
    found.wave =
      options_.sharing == sharing_mode::wave
          && options_.objective == split_objective::max_on_time
        ? best_split_of_rows(with_reserve(x), to_seconds(options_.margin))
        : found.split;
    if (options_.sharing == sharing_mode::cap)
      found.cap = best_cap(x);
    found.able = found.split.longest <= x.slo;
    out.push_back(found);
  }
  return out;
}

/// Null: no candidates.
const paldia_scaling::candidate*
paldia_scaling::choose(const std::vector<candidate>& from) const {
  if (from.empty())
    return nullptr;
  auto fastest =
    std::min_element(from.begin(), from.end(), [](auto& a, auto& b) {
      return a.split.longest < b.split.longest;
    });
  auto cheapest_with = [&](auto&& fits) {
    auto i = std::find_if(from.begin(), from.end(), fits);
    return i == from.end() ? &*fastest : &*i;
  };
  if (options_.choose == paldia_choice::escalate)
    return cheapest_with([](auto& x) { return x.able; });
  auto limit = fastest->split.longest + to_seconds(options_.slack);
  auto any =
    std::any_of(from.begin(), from.end(), [](auto& x) { return x.able; });
  return cheapest_with(
    [&](auto& x) { return (x.able || !any) && x.split.longest <= limit; });
}

device_sharing paldia_scaling::sharing_of(const candidate& chosen) const {
  device_sharing out;
  out.mode = options_.sharing;
  if (out.mode == sharing_mode::wave)
    out.at_once =
      static_cast<uint32_t>(std::max<uint64_t>(1, chosen.wave.at_once));
  if (out.mode == sharing_mode::cap)
    out.at_once = static_cast<uint32_t>(chosen.cap);
  return out;
}

std::string paldia_scaling::explain(const candidate& chosen, uint64_t requests,
                                    size_t served_by) const {
  auto out = std::to_string(requests) + " requests in "
             + format_duration(options_.gather) + " on "
             + kinds_[chosen.kind].kind + ": "
             + std::to_string(chosen.wave.at_once) + " batches of "
             + std::to_string(chosen.wave.rows) + " at once, "
             + std::to_string(chosen.split.queued)
             + " requests wait, the last takes " + in_ms(chosen.split.longest);
  if (!chosen.able)
    out += ", more than the SLO";
  if (served_by != chosen.kind)
    out += "; until that is wanted " + std::to_string(options_.wait)
           + " times, " + kinds_[served_by].kind;
  return out;
}

void paldia_scaling::decide(const cluster_snapshot& in,
                            const model_state& model, const lane_list& lanes,
                            policy_memory& memory, proposal& out) const {
  auto& name = model.settings.model;
  auto groups = configured_groups(model);
  if (groups && groups->size() != 1)
    groups = error{ec::bad_request,
                   "parts: policy paldia places whole replicas (expected"
                   " neither parts nor cuts)",
                   {}};
  if (!groups) {
    out.refused[name] = groups.failure().text;
    return;
  }
  auto& group = groups->front();
  group.count =
    model.elastic ? std::max<uint64_t>(1, model.settings.scaling.min) : 0;
  group.least = std::min(group.count, model.settings.scaling.min);
  std::vector<double> rates; // of seconds, oldest first
  if (auto load = in.loads.find(name); load != in.loads.end())
    rates.assign(load->second->seconds.rbegin(), load->second->seconds.rend());
  auto requests = static_cast<uint64_t>(std::llround(
    forecast(rates, options_.forecast) * to_seconds(options_.gather)));
  auto candidates = candidates_for(in, model, requests, lanes);
  auto* chosen = choose(candidates);
  auto& values = memory.values;
  auto key = name + "/kind", count = name + "/mismatches";
  if (chosen == nullptr) {
    auto there = std::any_of(lanes.begin(), lanes.end(),
                             [](auto& x) { return x.has_value(); });
    out.reasons[name] = there ? "no execution time is known on any priced kind"
                              : "the cluster has no device of a priced kind";
    if (auto i = values.find(key); i != values.end())
      group.device = kinds_.at(static_cast<size_t>(i->second)).kind;
    out.groups.push_back(std::move(group));
    return;
  }
  auto is = values.try_emplace(key, static_cast<double>(chosen->kind)).first;
  auto differs = static_cast<size_t>(is->second) != chosen->kind;
  auto& mismatches = values[count];
  if (differs && mismatches >= static_cast<double>(options_.wait)) {
    is->second = static_cast<double>(chosen->kind);
    differs = false;
  }
  mismatches = differs ? mismatches + 1 : 0;
  auto serving = static_cast<size_t>(is->second);
  group.device = kinds_.at(serving).kind;
  out.reasons[name] = explain(*chosen, requests, serving);
  for (auto& x : candidates)
    if (options_.sharing != sharing_mode::lanes)
      out.devices.push_back({kinds_[x.kind].kind, sharing_of(x)});
  for (auto& x : candidates)
    if (x.kind == serving && x.wave.rows > 0) {
      group.batch_max = std::max(group.batch_max, group.tuned.batch);
      group.tuned.batch = std::min(group.tuned.batch, x.wave.rows);
    }
  out.groups.push_back(std::move(group));
}

proposal paldia_scaling::propose(const cluster_snapshot& snapshot,
                                 policy_memory& memory, random_stream&,
                                 timestamp now) const {
  proposal out;
  auto lanes = lanes_of_kinds(snapshot);
  for (auto& name : snapshot.scopes.at(scope())->models)
    decide(snapshot, *snapshot.models.at(name), lanes, memory, out);
  end_period(snapshot, memory, now);
  return out;
}

} // namespace millrace
