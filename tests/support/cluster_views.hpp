// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/least_loaded.hpp"
#include "actors/policies/rollout/reconcile.hpp"
#include "actors/policies/state/configured_groups.hpp"

/// \file
/// Cluster views for placement, and plans carried out by hand.

namespace millrace::test::views {

/// A cluster of workers with one cpu each, all holding versions of model m.
inline cluster_view workers(size_t n, std::vector<uint64_t> versions = {1}) {
  cluster_view out;
  for (size_t i = 1; i <= n; ++i) {
    node_state x;
    x.node.name = "w" + std::to_string(i);
    x.devices.push_back({"cpu0", "cpu", 1, {}});
    for (auto v : versions)
      x.models.push_back({"m",
                          v,
                          "",
                          {},
                          100,
                          {100},
                          {},
                          v == versions.front()
                            ? std::vector<std::string>{"default"}
                            : std::vector<std::string>{},
                          {},
                          {},
                          {}});
    out.nodes[x.node.name] = x;
  }
  return out;
}

inline model_settings want(uint64_t replicas, const std::string& version = "") {
  model_settings out;
  out.model = "m";
  out.version = version;
  out.replicas = replicas;
  return out;
}

/// Workers with model m of twelve layers with `layer` bytes each, on devices
/// with `memory` bytes.
inline cluster_view with_memory(size_t n, uint64_t memory,
                                uint64_t layer = 10) {
  auto out = workers(n);
  for (auto& [name, node] : out.nodes) {
    node.models[0].bytes = 12 * layer;
    node.models[0].layer_bytes.assign(12, layer);
    node.devices[0].memory = {memory};
  }
  return out;
}

inline model_settings in_parts(uint64_t parts, bool complete = true) {
  auto out = want(1);
  out.parts = parts;
  out.complete = complete;
  return out;
}

/// The groups that policy `fixed` requests for a model with these settings.
inline wanted_groups groups_for(const cluster_view& view,
                                const model_settings& x) {
  model_state out{x, "model/" + x.model, resolve_version(view, x), {}};
  if (auto* bundle = bundle_of(view, x.model, out.version))
    out.bundle = *bundle;
  auto groups = configured_groups(out);
  auto model = std::make_shared<const model_state>(std::move(out));
  if (!groups)
    return {model, {}, groups.failure().text};
  return {model, std::move(*groups), {}};
}

/// A plan with policy least_loaded, without a snapshot.
inline placement_plan reconcile(const cluster_view& view,
                                const std::vector<wanted_groups>& wanted) {
  return millrace::reconcile(view, wanted, least_loaded_placement{{}}, {});
}

inline placement_plan reconcile(const cluster_view& view,
                                const std::vector<model_settings>& wanted) {
  std::vector<wanted_groups> all;
  for (auto& x : wanted)
    all.push_back(groups_for(view, x));
  return reconcile(view, all);
}

inline copy_count count_copies(const cluster_view& view,
                               const model_settings& x) {
  return millrace::count_copies(view, groups_for(view, x));
}

/// Carries out a plan. Each deployed replica is in condition `started` and uses
/// `memory` bytes. Evicted replicas are removed.
inline void apply(cluster_view& view, const placement_plan& plan,
                  replica_condition started, uint64_t memory) {
  for (auto& x : plan.evict)
    std::erase_if(view.nodes[x.node].replicas,
                  [&](auto& r) { return r.what.replica == x.replica; });
  for (auto& x : plan.adjust)
    for (auto& r : view.nodes[x.node].replicas)
      if (r.what.replica == x.replica) {
        r.what.tuned = x.tuned;
        r.what.policy = x.policy;
        r.what.tenants = x.tenants;
        r.what.group = x.group;
      }
  for (auto& x : plan.deploy) {
    view.nodes[x.node].replicas.push_back({x, started, {}, memory, {}, {}, {}});
  }
}

inline placement_plan
carry_out(cluster_view& view, const std::vector<model_settings>& wanted,
          replica_condition started = replica_condition::ready,
          uint64_t memory = 0) {
  auto plan = reconcile(view, wanted);
  apply(view, plan, started, memory);
  return plan;
}

inline placement_plan settle(cluster_view& view,
                             const std::vector<model_settings>& wanted) {
  return carry_out(view, wanted, replica_condition::ready, 100);
}

inline bool is_idle(const placement_plan& x) {
  return x.deploy.empty() && x.evict.empty() && x.adjust.empty();
}

inline const layer_range whole{0, 12};

} // namespace millrace::test::views
