// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Snapshots on the bus and in files, and decisions that can be replayed.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "transport/messages/decision.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// A snapshot, or the difference between two snapshots: changed parts by name;
/// an empty value marks a removed part.
struct snapshot_delta {
  uint64_t base = 0; ///< number of the snapshot to change; 0: a whole snapshot
  uint64_t number = 0;
  uint64_t epoch = 0;
  microseconds at{0};
  microseconds covered{0};
  microseconds counted{0};
  std::map<std::string, std::optional<node_state>> nodes;
  std::map<std::string, std::optional<model_state>> models;
  std::map<std::string, std::optional<model_load>> loads;
  std::map<std::string, std::optional<scope_state>> scopes;
  uint64_t costs_version = 0; ///< of the cost book; 0: there is none
  std::map<std::string, std::optional<model_profiles>> profiles;
  std::map<std::string, std::optional<model_averages>> averages;
  std::map<std::string, std::optional<pool_state>> pools;
  std::map<std::string, std::optional<machine_state>> machines;
  MILLRACE_FIELDS(snapshot_delta, base, number, epoch, at, covered, counted,
                  nodes, models, loads, scopes, costs_version, profiles,
                  averages, pools, machines)
};

/// Input and output of a policy for one decision.
struct decision_record {
  decision what;
  uint64_t seed = 0;    ///< of the random stream that the policy was given
  int64_t now = 0;      ///< the policy's time, nanoseconds since some epoch
  policy_memory memory; ///< before the decision
  proposal proposed;
  snapshot_delta snapshot; ///< relative to that of the previous record
  MILLRACE_FIELDS(decision_record, what, seed, now, memory, proposed, snapshot)
};

/// Operator to autoscaler: the recorded decisions. Errors: unknown_model when
/// the named model has none.
struct get_decision_records {
  std::string model; ///< empty: of all
  MILLRACE_FIELDS(get_decision_records, model)
};
struct decision_records {
  std::vector<decision_record> records; ///< the oldest first
  MILLRACE_FIELDS(decision_records, records)
};

} // namespace millrace
