// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Messages between the actors of a controller, and between any actor and its
/// supervisor, in one process.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/actor.hpp"
#include "runtime/store/store.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// Timer message of an actor to itself.
using tick = caf::tick_atom;

/// Accept no new work, and end when all work is answered.
struct finish {
  MILLRACE_FIELDS(finish)
};

/// Accept no new work from other nodes' gateways. The gateway of this node
/// still sends work until it has answered its admitted requests.
struct finish_elsewhere {
  MILLRACE_FIELDS(finish_elsewhere)
};

/// Store to its actor: the rows of a table, read at the start.
struct rows_read {
  std::string table;
  std::shared_ptr<result<std::vector<stored_row>>> rows;
  MILLRACE_FIELDS(rows_read, table, rows)
};

/// Store to its actor: the result of a write.
struct row_written {
  std::shared_ptr<result<uint64_t>> version;
  MILLRACE_FIELDS(row_written, version)
};

struct plans_made;

/// Planner thread to profiler: cuts of models into parts.
struct planned {
  std::shared_ptr<const plans_made> plans;
  MILLRACE_FIELDS(planned, plans)
};

/// Profiler to cluster state: a new version of the cost book.
struct costs_changed {
  std::shared_ptr<const cost_book> content;
  MILLRACE_FIELDS(costs_changed, content)
};

/// Placement to cluster state: changed nodes; null: the node left.
struct nodes_changed {
  std::map<std::string, std::shared_ptr<const node_state>> nodes;
  MILLRACE_FIELDS(nodes_changed, nodes)
};

/// Cluster state to placement, autoscaler and provider.
struct snapshot_taken {
  std::shared_ptr<const cluster_snapshot> content;
  MILLRACE_FIELDS(snapshot_taken, content)
};

/// Provider to cluster state: changed pools and machines; null: the machine is
/// released.
struct machines_changed {
  std::map<std::string, std::shared_ptr<const pool_state>> pools;
  std::map<std::string, std::shared_ptr<const machine_state>> machines;
  MILLRACE_FIELDS(machines_changed, pools, machines)
};

/// Placement to autoscaler: the proposal of a scope was rejected because its
/// snapshot is out of date. The autoscaler runs the policy again.
struct proposal_outdated {
  std::string scope;
  uint64_t snapshot = 0; ///< the snapshot of the proposal
  MILLRACE_FIELDS(proposal_outdated, scope, snapshot)
};

/// Ledger store to provider: the result of a write.
struct machine_written {
  std::string machine;
  std::shared_ptr<result<uint64_t>> version;
  MILLRACE_FIELDS(machine_written, machine, version)
};

struct placement_plan;

/// Placement to itself: a plan, after the configured decision time.
struct decided_plan {
  std::shared_ptr<const placement_plan> plan;
  MILLRACE_FIELDS(decided_plan, plan)
};

} // namespace millrace
