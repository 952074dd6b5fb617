// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/policies/rollout/layout.hpp"
#include "actors/policies/rollout/reconcile.hpp"

namespace millrace {

/// The wanted groups, with the replicas of each group.
class group_map {
public:
  /// The capacity outlives the map.
  explicit group_map(const device_capacity& capacity) : capacity_(capacity) {}

  /// Adds a model's groups and sorts its replicas into them. A replica belongs
  /// to the group of its start if it matches that group. A replica of a removed
  /// group belongs to the first group that it matches.
  void add(const wanted_groups& wanted,
           const std::vector<placed_replica>& there);

  std::vector<layout> layouts;
  std::map<std::string, std::vector<size_t>> by_model; ///< positions in layouts
  /// Replicas that belong to no group of their model, by model.
  std::map<std::string, std::vector<placed_replica>> wrong;

private:
  void lay_out(const wanted_groups& wanted);
  void sort_in(const placed_replica& r, const model_state& model);
  bool is_as_wanted(const placed_replica& r, const replica_group& g,
                    const model_state& model) const;

  /// Calls f with each group of a model and the list of its replicas until f
  /// returns true. Returns whether f did.
  template <class F>
  bool any_group(const std::string& model, F f);

  const device_capacity& capacity_;
};

} // namespace millrace
