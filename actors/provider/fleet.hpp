// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Decisions of the PROVIDER: which machine changes its condition now.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transport/messages/machine.hpp"

namespace millrace {

/// State of a machine as input of the decisions.
struct fleet_machine {
  std::string pool;
  machine_condition condition = machine_condition::released;
  microseconds since{0}; ///< when the condition began, by the wall clock
  bool changes = false;  ///< a change is being written to the ledger
  bool booted = false;   ///< its node has joined during this lease
  bool joined = false;   ///< its node has joined and accepts replicas
  size_t replicas = 0;   ///< on its node
  bool replaced = true;  ///< all its replicas are ready elsewhere too
};

/// State of a pool as input of the decisions.
struct fleet_pool {
  pool_settings settings;
  std::vector<std::string> machines; ///< names of all possible machines
  /// Machines that the owning scope wants; nothing: undecided in this epoch.
  std::optional<uint64_t> wanted;
};

/// A change of the condition of one machine.
struct fleet_step {
  std::string machine;
  machine_condition to = machine_condition::requested;
  std::string reason;
};

/// The steps that are due. Callers carry them out and ask again; a machine with
/// `changes` gets none. Rules, in this order:
///
/// 1. A booting machine is ready when its node has joined; a ready one is
///    booting when its node was lost.
/// 2. A booting machine without a node for longer than it may take (`boot` and
///    `patience` at first, `patience` after a loss) drains.
/// 3. A draining machine is released when its replicas are ready elsewhere, or
///    after `drain`.
/// 4. Machines are requested, by name, while fewer than wanted are requested,
///    booting or ready. At no time are more than `most` not released.
/// 5. Surplus machines drain: requested and booting machines first,
///    then those with the fewest replicas.
std::vector<fleet_step>
next_steps(const std::map<std::string, fleet_pool>& pools,
           const std::map<std::string, fleet_machine>& machines,
           microseconds now);

/// Returns when the next timeout makes a step due, by the wall clock;
/// microseconds::max(): never.
microseconds next_due(const std::map<std::string, fleet_pool>& pools,
                      const std::map<std::string, fleet_machine>& machines);

} // namespace millrace
