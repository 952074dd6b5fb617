// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Decisions of scaling policies, with reasons. No actor handles.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/time.hpp"
#include "transport/messages/snapshot.hpp"

namespace millrace {

/// State of a policy between two proposals: numbers by name, such as
/// "MODEL/up_since". Serialisable, so that a decision can be replayed.
struct policy_memory {
  std::map<std::string, double> values;
  MILLRACE_FIELDS(policy_memory, values)
};

/// A change of the replica counts of one model.
struct decision {
  std::string model;
  std::string scope;
  std::string policy;
  uint64_t number = 0;   ///< counts the decisions of this controller
  uint64_t snapshot = 0; ///< number of the snapshot that it is based on
  microseconds ago{0};   ///< age when it is shown
  uint64_t from = 0;     ///< copies of the model
  uint64_t to = 0;
  std::string reason;
  /// Replicas after the decision, by the last part of the group's id.
  std::map<std::string, uint64_t> groups;
  MILLRACE_FIELDS(decision, model, scope, policy, number, snapshot, ago, from,
                  to, reason, groups)
};

/// For operators: the latest decisions of one model, or of all.
struct get_decisions {
  std::string model; ///< empty: all
  MILLRACE_FIELDS(get_decisions, model)
};
struct decision_list {
  std::vector<decision> decisions; ///< the latest first
  MILLRACE_FIELDS(decision_list, decisions)
};

/// For operators: how each model is scaled.
struct get_scaling {
  MILLRACE_FIELDS(get_scaling)
};
struct scaling_status {
  std::string model;
  std::string scope;
  std::string policy;
  uint64_t min = 0;
  uint64_t max = 0;
  uint64_t wanted = 0; ///< replicas, over all groups
  uint64_t ready = 0;
  uint64_t starting = 0;
  double rate = 0; ///< as in model_load
  uint64_t waiting = 0;
  std::string reason;              ///< of the last proposal
  microseconds changed{-1};        ///< since the last change; below 0: none yet
  std::vector<stage_delay> stages; ///< as in proposal
  MILLRACE_FIELDS(scaling_status, model, scope, policy, min, max, wanted, ready,
                  starting, rate, waiting, reason, changed, stages)
};
struct scaling_list {
  std::vector<scaling_status> models;
  MILLRACE_FIELDS(scaling_list, models)
};

/// For operators: the demand for each model as the controller sees it.
struct get_demand {
  MILLRACE_FIELDS(get_demand)
};
struct demand_source {
  std::string node;
  uint64_t reports = 0; ///< received
  uint64_t ignored = 0; ///< of these: falling counters, or invalid numbers
  microseconds ago{0};  ///< since the last one
  MILLRACE_FIELDS(demand_source, node, reports, ignored, ago)
};
struct demand_row {
  std::string model;
  double rate = 0;
  uint64_t arrived = 0; ///< since this controller started
  uint64_t waiting = 0;
  microseconds oldest{0};
  double wait = 0;
  double service = 0;
  double within = 1;
  double arrival_cv = 0;
  std::vector<stage_load> stages; ///< as in model_load
  double latency_p50 = 0; ///< seconds from arrival to answer, over the latest
                          ///< ok answers; 0: none yet
  double latency_p99 = 0; ///< as latency_p50
  double errors = 0;      ///< fraction of the latest answers that are not ok
  MILLRACE_FIELDS(demand_row, model, rate, arrived, waiting, oldest, wait,
                  service, within, arrival_cv, stages, latency_p50, latency_p99,
                  errors)
};
struct demand_list {
  std::vector<demand_row> models;
  std::vector<demand_source> sources;
  MILLRACE_FIELDS(demand_list, models, sources)
};

} // namespace millrace
