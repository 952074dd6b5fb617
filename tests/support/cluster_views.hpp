// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/placement/parts.hpp"
#include "actors/placement/reconcile.hpp"

/// \file
/// Clusters as the placement sees them, and plans carried out by hand.

namespace millrace::test::views {

/// A cluster of workers with one cpu each, all holding versions of model m.
inline cluster_view workers(size_t n, std::vector<uint64_t> versions = {1}) {
  cluster_view out;
  for (size_t i = 1; i <= n; ++i) {
    inventory x;
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

/// Workers whose model m has twelve layers of so many bytes each, on devices
/// with so much memory.
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

/// Carries a plan out: each replica that it deploys is in that condition, and
/// takes so much memory; what it evicts is gone.
inline placement_plan
carry_out(cluster_view& view, const std::vector<model_settings>& wanted,
          replica_condition started = replica_condition::ready,
          uint64_t memory = 0) {
  auto plan = reconcile(view, wanted);
  for (auto& x : plan.evict)
    std::erase_if(view.nodes[x.node].replicas,
                  [&](auto& r) { return r.what.replica == x.replica; });
  for (auto& x : plan.deploy)
    view.nodes[x.node].replicas.push_back({x, started, {}, memory, {}, {}, {}});
  return plan;
}

inline placement_plan settle(cluster_view& view,
                             const std::vector<model_settings>& wanted) {
  return carry_out(view, wanted, replica_condition::ready, 100);
}

inline bool is_idle(const placement_plan& x) {
  return x.deploy.empty() && x.evict.empty();
}

inline const layer_range whole{0, 12};

} // namespace millrace::test::views
