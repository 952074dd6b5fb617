// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

/// The wanted groups of one registered model.
struct wanted_groups {
  std::shared_ptr<const model_state> model;
  std::vector<replica_group> groups; ///< empty: its scope has not decided yet
  std::string refused; ///< why it has no plan; running replicas stay
  rollout_settings rollout{};
};

/// Orders, and the reasons why models lack replicas.
struct placement_plan {
  std::vector<assignment> deploy;
  struct eviction {
    std::string node;
    std::string replica;
  };
  std::vector<eviction> evict;
  /// New parameters of a replica that stays.
  struct adjustment {
    std::string node;
    std::string replica;
    tunables tuned;
    serving_policy policy;
    std::vector<std::string> tenants;
    group_tag group;

    friend bool operator==(const adjustment&, const adjustment&) = default;
  };
  std::vector<adjustment> adjust;
  std::vector<wanted_model> serve;          ///< models to announce to gateways
  std::map<std::string, std::string> notes; ///< by model: why it lacks replicas
  /// Models that want a replica, have none running or starting, and can start
  /// none even after all draining replicas have ended.
  std::set<std::string> stuck;
};

/// Makes the orders that turn the running replicas into the wanted groups.
///
/// - A replica that matches its group stays.
/// - The policy chooses a device for each missing replica.
/// - A surplus replica ends; the node with most replicas of the group loses one
///   first. Replicas of unwanted models end too.
/// - A replica of another version, share or device, or loaded for fewer rows
///   than a batch of its group, ends after its replacement is ready, as
///   `rollout` allows.
/// - A replica with other tunables, serving policy, tenants or group is
///   adjusted.
/// - If the policy spreads, a group with all replicas on one node is spread
///   when another node joins.
/// - Two parts of a model do not stay on one device while a device without a
///   part of the model has fewer replicas.
/// - A group that extends a cut gets a whole replica on each device with a
///   ready part. The parts end once as many whole replicas as wanted copies are
///   ready.
/// - A draining node gets no replica, and its replicas do not count.
placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted,
                         const placement_policy& policy,
                         const cluster_snapshot& snapshot);

/// A capacity index that is kept from one plan to the next.
struct capacity_keeper {
  std::optional<device_capacity> index;
  std::set<std::string> changed; ///< nodes, since the last plan
};

/// The same, with a capacity index of this view that is updated by the changes.
placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted,
                         const placement_policy& policy,
                         const cluster_snapshot& snapshot,
                         capacity_keeper& kept);

/// Counts the copies of a model. A copy in parts is ready when all its parts
/// are ready, and starts while a part starts. Whole replicas that replace parts
/// count as further copies.
struct copy_count {
  uint64_t wanted = 0;
  uint64_t ready = 0;
  uint64_t starting = 0;
};
copy_count count_copies(const cluster_view& view, const wanted_groups& groups);

} // namespace millrace
