// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The heuristic of Usher for a fixed number of equal devices, as the
/// interference framework (Elvinger, ETH Zurich, thesis 505, 2024, section
/// 3.3) re-implements it: models are grouped by complementary demands, and one
/// group after another gets the replicas with the highest goodput. Pure
/// arithmetic, without snapshots.

#include <cstdint>
#include <string>
#include <vector>

namespace millrace {

/// A replica at one batch size, by measurements of the model alone.
struct usher_batch {
  uint64_t rows = 0;
  double rate = 0;    ///< requests/s that a replica serves, without queueing
  double compute = 0; ///< Creq, percent of a device
  double memory = 0;  ///< Mreq, percent of a device
};

struct usher_model {
  std::string name;
  double rate = 0; ///< requests/s that arrive
  /// Batches with a latency within the SLO, by rows; empty: the model cannot be
  /// served.
  std::vector<usher_batch> batches;
};

struct usher_limits {
  uint64_t group_size = 4; ///< models in a group, at most
  uint64_t factors = 6;    ///< multiples of the least replica count to try
  double heavy = 1.2;      ///< ratio of demands that makes a model one-sided
  /// Limit of placements to try for a group; then the best placement so far
  /// counts.
  uint64_t placements = 1'000'000;
};

struct usher_replica {
  size_t model = 0; ///< index of the model
  usher_batch batch;
  size_t device = 0;
};

struct usher_plan {
  std::vector<usher_replica> replicas; ///< by group, in order of placement
  double goodput = 0;   ///< expected requests/s: the sum over all models
  size_t devices = 0;   ///< devices with a replica
  bool complete = true; ///< false: `placements` ended the search of a group
};

/// Models by their indices.
using usher_groups = std::vector<std::vector<size_t>>;

/// Groups of at most `group_size` models: in each of floor(log2 group_size)
/// rounds, a matching of the groups with the most pairs and, among these, the
/// least sum of |sum of Creq - sum of Mreq| over the pairs. The demands are
/// those of the largest batch of each model, which the paper leaves open. Ties:
/// by the order of the models. Models without a batch are in no group.
usher_groups group_by_demand(const std::vector<usher_model>& models,
                             uint64_t group_size);

/// Replicas on devices 0 to `devices` - 1, which have nothing else, for groups
/// in this order. Replica counts of a model are multiples of the least count
/// that serves its rate with the largest batch; a model for which even that
/// count exceeds `devices` is not served. No device has two replicas of a
/// model. Among placements of equal goodput, one with the fewest devices and
/// then the smallest batches counts, and the first among those.
usher_plan make_usher_plan(const std::vector<usher_model>& models,
                           const usher_groups& groups, size_t devices,
                           const usher_limits& limits = {});

} // namespace millrace
