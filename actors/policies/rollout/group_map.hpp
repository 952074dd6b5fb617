// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "actors/policies/rollout/layout.hpp"
#include "actors/policies/rollout/reconcile.hpp"

namespace millrace {

/// The groups that are wanted, with the replicas that there are of each.
class group_map {
public:
  /// The capacity outlives the map.
  explicit group_map(const device_capacity& capacity) : capacity_(capacity) {}

  /// Adds a model's groups and sorts its replicas into them. A replica belongs
  /// to the group that it was started for, if it is as that group wants it; a
  /// replica of a group that is gone belongs to the first one that it could
  /// have been started for.
  void add(const wanted_groups& x, const std::vector<placed_replica>& there);

  std::vector<layout> layouts;
  std::map<std::string, std::vector<size_t>> by_model; ///< of these
  /// Replicas that belong to no group of their model, by model.
  std::map<std::string, std::vector<placed_replica>> wrong;

private:
  void lay_out(const wanted_groups& x);
  void sort_in(const placed_replica& r, const model_state& model);
  bool is_as_wanted(const placed_replica& r, const replica_group& g,
                    const model_state& model) const;

  /// Calls f with each group of a model and the list of its replicas, until it
  /// returns true; returns whether it did.
  template <class F>
  bool any_group(const std::string& model, F f);

  const device_capacity& capacity_;
};

} // namespace millrace
