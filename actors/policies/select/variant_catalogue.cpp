// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/select/variant_catalogue.hpp"

#include <algorithm>
#include <utility>

namespace millrace {

namespace {

bool meets(size_t variant, const catalogue_variant& x,
           const variant_query& wanted) {
  return x.accuracy >= wanted.accuracy
         && (wanted.latency <= 0 || x.latency <= wanted.latency)
         && (!wanted.allowed || wanted.allowed(variant));
}

} // namespace

std::set<variant_catalogue::order>&
variant_catalogue::set_of(application& in, const entry& variant) const {
  return variant.replicas.empty()  ? in.inactive
         : !variant.active.empty() ? in.active
                                   : in.degraded;
}

variant_catalogue::order variant_catalogue::key_of(size_t variant) const {
  auto& x = variants_[variant];
  return x.replicas.empty()
           ? order{x.facts.load + x.facts.latency, x.facts.cost, variant}
           : order{x.facts.cost, x.facts.latency, variant};
}

template <class F>
void variant_catalogue::change(size_t variant, F f) {
  auto& x = variants_[variant];
  auto& in = applications_[x.facts.application];
  set_of(in, x).erase(key_of(variant));
  f(x);
  set_of(in, x).insert(key_of(variant));
}

size_t variant_catalogue::add(catalogue_variant added) {
  variants_.push_back({std::move(added), {}, {}, {}});
  auto variant = variants_.size() - 1;
  change(variant, [](entry&) {});
  return variant;
}

void variant_catalogue::set_utilisation(size_t worker, size_t kind,
                                        double utilisation) {
  auto [known, fresh] = utilisation_[kind].try_emplace(worker, utilisation);
  auto& all = workers_[kind];
  if (!fresh)
    all.erase({std::exchange(known->second, utilisation), worker});
  all.insert({utilisation, worker});
}

void variant_catalogue::set_replica(size_t variant, size_t worker, double load,
                                    bool degraded) {
  change(variant, [&](entry& x) {
    auto [known, fresh] = x.replicas.try_emplace(worker);
    auto& is = known->second;
    if (!fresh)
      (is.degraded ? x.degraded : x.active).erase({is.load, worker});
    is = {load, degraded};
    (degraded ? x.degraded : x.active).insert({load, worker});
  });
}

void variant_catalogue::remove_replica(size_t variant, size_t worker) {
  change(variant, [&](entry& x) {
    auto known = x.replicas.find(worker);
    if (known == x.replicas.end())
      return;
    auto& is = known->second;
    (is.degraded ? x.degraded : x.active).erase({is.load, worker});
    x.replicas.erase(known);
  });
}

/// The worker with the lowest utilisation of a kind of device.
std::optional<size_t> variant_catalogue::roomy_worker(size_t kind) const {
  auto all = workers_.find(kind);
  if (all == workers_.end() || all->second.empty()
      || all->second.begin()->first >= 1)
    return std::nullopt;
  return all->second.begin()->second;
}

std::optional<variant_choice>
variant_catalogue::active_one(const application& in, const variant_query& query,
                              bool fit) const {
  for (auto& [cost, latency, variant] : in.active) {
    auto& all = variants_[variant].active;
    if (meets(variant, variants_[variant].facts, query))
      return variant_choice{
        variant, fit ? all.rbegin()->second : all.begin()->second, false};
  }
  return std::nullopt;
}

std::optional<variant_choice>
variant_catalogue::inactive_one(const application& in,
                                const variant_query& query) const {
  for (auto& [time, cost, variant] : in.inactive)
    if (meets(variant, variants_[variant].facts, query))
      if (auto worker = roomy_worker(variants_[variant].facts.kind))
        return variant_choice{variant, *worker, true};
  return std::nullopt;
}

std::optional<variant_choice>
variant_catalogue::degraded_one(const application& in,
                                const variant_query& query) const {
  for (auto& [cost, latency, variant] : in.degraded)
    if (meets(variant, variants_[variant].facts, query))
      return variant_choice{variant,
                            variants_[variant].degraded.begin()->second, false};
  return std::nullopt;
}

std::optional<variant_choice>
variant_catalogue::by_index(const variant_query& query, bool fit) const {
  auto in = applications_.find(query.application);
  if (in == applications_.end())
    return std::nullopt;
  auto& all = in->second;
  if (auto found = active_one(all, query, fit))
    return found;
  auto found =
    query.loads_first ? inactive_one(all, query) : degraded_one(all, query);
  if (found)
    return found;
  return query.loads_first ? degraded_one(all, query)
                           : inactive_one(all, query);
}

std::optional<variant_choice>
variant_catalogue::by_scan(const variant_query& query) const {
  // Rank, two figures by rank, variant, load or utilisation, worker.
  using candidate = std::tuple<int, double, double, size_t, double, size_t>;
  std::optional<candidate> best;
  const int inactive = query.loads_first ? 1 : 2, degraded = 3 - inactive;
  auto consider = [&](const candidate& y) {
    if (!best || y < *best)
      best = y;
  };
  for (size_t variant = 0; variant < variants_.size(); ++variant) {
    auto& [facts, replicas, active_workers, degraded_workers] =
      variants_[variant];
    if (facts.application != query.application || !meets(variant, facts, query))
      continue;
    for (auto& [worker, is] : replicas)
      consider({is.degraded ? degraded : 0, facts.cost, facts.latency, variant,
                is.load, worker});
    auto all = utilisation_.find(facts.kind);
    if (!replicas.empty() || all == utilisation_.end())
      continue;
    for (auto& [worker, utilisation] : all->second)
      if (utilisation < 1)
        consider({inactive, facts.load + facts.latency, facts.cost, variant,
                  utilisation, worker});
  }
  if (!best)
    return std::nullopt;
  return variant_choice{std::get<3>(*best), std::get<5>(*best),
                        std::get<0>(*best) == inactive};
}

std::optional<variant_choice>
variant_catalogue::choose(const variant_query& query, selection_rule by) const {
  return by == selection_rule::brute
           ? by_scan(query)
           : by_index(query, by == selection_rule::fit);
}

} // namespace millrace
