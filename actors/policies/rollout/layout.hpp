// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "actors/policies/state/device_capacity.hpp"

namespace millrace {

inline bool is_ready(const placed_replica& r) {
  return r.status->state == replica_condition::ready;
}

inline uint64_t count_ready(const std::vector<placed_replica>& xs) {
  return static_cast<uint64_t>(std::count_if(xs.begin(), xs.end(), is_ready));
}

/// Model and group of a replica to start.
struct replica_spec {
  const model_state* model;
  const replica_group* group;

  const model_settings& settings() const { return model->settings; }
  const layer_range& layers() const { return group->layers; }
  uint64_t version() const { return group->version; }
};

/// Groups of one model that together make up its copies, with the replicas of
/// each group. A model may have several layouts side by side.
struct layout {
  const model_state* model;
  std::vector<const replica_group*> parts;        ///< of one cut, by stage
  std::vector<std::vector<placed_replica>> there; ///< replicas of each part
  /// The group of whole replicas that replace the parts; null: none.
  const replica_group* whole = nullptr;
  std::vector<placed_replica> wholes{}; ///< replicas of `whole`
  bool all_ready = false;               ///< as many ready copies as wanted

  /// Number of wanted copies.
  uint64_t copies() const {
    uint64_t n = 0;
    for (auto* x : parts)
      n = std::max(n, x->count);
    return n;
  }

  /// Limit of whole replicas: one per wanted part.
  uint64_t most_wholes() const {
    uint64_t n = 0;
    for (auto* x : parts)
      n += x->count;
    return n;
  }

  /// Returns the whole replica that replaces a part; null when there is none.
  const placed_replica* completing(const placed_replica& part) const {
    auto i = std::find_if(wholes.begin(), wholes.end(), [&](auto& r) {
      return r.status->what.extends_replica == part.status->what.replica;
    });
    return i == wholes.end() ? nullptr : &*i;
  }

  /// Returns a whole replica on a device; null when there is none.
  const placed_replica* whole_on(const device_capacity& all,
                                 size_t place) const {
    auto i = std::find_if(wholes.begin(), wholes.end(),
                          [&](auto& r) { return all.of(r) == place; });
    return i == wholes.end() ? nullptr : &*i;
  }

  /// Whole replicas beyond the wanted copies.
  std::vector<placed_replica> spare() const {
    std::vector<placed_replica> out;
    auto needed = copies();
    for (auto& r : wholes)
      if (is_ready(r) && needed > 0)
        --needed;
      else
        out.push_back(r);
    return out;
  }

  /// Whether some part has no replica.
  bool is_broken() const {
    return std::any_of(there.begin(), there.end(),
                       [](auto& xs) { return xs.empty(); });
  }
};

} // namespace millrace
