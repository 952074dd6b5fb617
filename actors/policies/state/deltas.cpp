// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/deltas.hpp"

namespace millrace {

namespace {

template <class T>
using parts = std::map<std::string, std::shared_ptr<const T>>;

template <class T>
using changes = std::map<std::string, std::optional<T>>;

/// Walks both maps once, in parallel.
template <class T>
changes<T> changes_between(const parts<T>& before, const parts<T>& after) {
  changes<T> out;
  auto was = before.begin();
  for (auto& [name, is] : after) {
    for (; was != before.end() && was->first < name; ++was)
      out.emplace_hint(out.end(), was->first, std::nullopt);
    auto known = was != before.end() && was->first == name;
    if (!known || (was->second != is && *was->second != *is))
      out.emplace_hint(out.end(), name, *is);
    if (known)
      ++was;
  }
  for (; was != before.end(); ++was)
    out.emplace_hint(out.end(), was->first, std::nullopt);
  return out;
}

template <class T>
void apply(parts<T>& to, const changes<T>& some) {
  for (auto& [name, x] : some)
    if (x)
      to[name] = std::make_shared<const T>(*x);
    else
      to.erase(name);
}

const cost_book& costs_of(const cluster_snapshot& x) {
  static const cost_book none;
  return x.costs ? *x.costs : none;
}

} // namespace

snapshot_delta difference(const cluster_snapshot* before,
                          const cluster_snapshot& after) {
  static const cluster_snapshot nothing;
  auto& was = before == nullptr ? nothing : *before;
  return {was.number,
          after.number,
          after.epoch,
          after.at,
          after.covered,
          after.counted,
          changes_between(was.nodes, after.nodes),
          changes_between(was.models, after.models),
          changes_between(was.loads, after.loads),
          changes_between(was.scopes, after.scopes),
          costs_of(after).version,
          changes_between(costs_of(was).profiles, costs_of(after).profiles),
          changes_between(costs_of(was).averages, costs_of(after).averages),
          changes_between(was.pools, after.pools),
          changes_between(was.machines, after.machines)};
}

result<cluster_snapshot> apply(const cluster_snapshot* before,
                               const snapshot_delta& delta) {
  auto base = before == nullptr ? 0 : before->number;
  if (base != delta.base && delta.base != 0)
    return error{ec::bad_request,
                 "a delta of snapshot " + std::to_string(delta.base)
                   + " (expected one of snapshot " + std::to_string(base) + ")",
                 {}};
  cluster_snapshot out;
  if (delta.base != 0)
    out = *before;
  out.number = delta.number;
  out.epoch = delta.epoch;
  out.at = delta.at;
  out.covered = delta.covered;
  out.counted = delta.counted;
  apply(out.nodes, delta.nodes);
  apply(out.models, delta.models);
  apply(out.loads, delta.loads);
  apply(out.scopes, delta.scopes);
  apply(out.pools, delta.pools);
  apply(out.machines, delta.machines);
  if (delta.costs_version == 0)
    return out;
  if (costs_of(out).version == delta.costs_version)
    return out;
  auto costs = costs_of(out);
  costs.version = delta.costs_version;
  apply(costs.profiles, delta.profiles);
  apply(costs.averages, delta.averages);
  out.costs = std::make_shared<const cost_book>(std::move(costs));
  return out;
}

} // namespace millrace
