// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "config/scenario.hpp"
#include "runtime/virtual/world.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

class ledger;
class simulation;

/// A violated invariant.
struct violation {
  std::string invariant; ///< "I1"
  std::string what;
  microseconds at{0}; ///< since the start of the simulated world
};

/// The meaning of an invariant ("I1"), or of a promise about exploring ("P20"),
/// in one sentence. Empty for other names.
std::string_view meaning_of(std::string_view invariant);

/// Checks one invariant: during a run from the watched events, and at the end,
/// after all faults were healed and the cluster is quiet.
class invariant : public watcher {
public:
  explicit invariant(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  /// Called after the run; `run` is in its final state.
  virtual void at_end(simulation& run) { static_cast<void>(run); }

  const std::vector<violation>& found() const { return found_; }

protected:
  /// Records a violation; only the first four are kept.
  void broken(timestamp when, std::string what) {
    if (found_.size() < 4)
      found_.push_back(
        {name_, std::move(what), to_us(when - virtual_world::beginning)});
  }

private:
  std::string name_;
  std::vector<violation> found_;
};

/// The run's times and scenario, for invariants that depend on them.
struct expectations {
  const loaded_scenario* what = nullptr;
  timestamp begin;      ///< of the workload
  timestamp healed_at;  ///< all faults are over from then on
  timestamp settled_at; ///< effects of faults are over, too: liveness must hold
                        ///< from then on
  timestamp end;        ///< of the workload
};

using invariant_list = std::vector<std::unique_ptr<invariant>>;

/// Adds the invariants of requests: I1 to I6, I8, I13, I15. I7 is left out,
/// since no model promises an order.
void add_request_invariants(const ledger& l, const expectations& expected,
                            invariant_list& out);

/// Adds the invariants of nodes, and of the cluster after all faults: I9 to
/// I12, I14, I21, I22, I25, I26, I28, I29. I27 (goodput under overload) has a
/// test of its own; I30 takes two runs.
void add_cluster_invariants(const ledger& l, const expectations& expected,
                            invariant_list& out);

/// Adds the invariants of transferred models after all faults: I20, and I12 for
/// caches. I16 to I19 have tests of their own.
void add_transfer_invariants(const expectations& expected, invariant_list& out);

/// Adds the invariant of devices: I31, for the configured sharing.
void add_device_invariants(const expectations& expected, invariant_list& out);

/// Adds the invariant of machines and their costs: I32; nothing without pools.
void add_machine_invariants(const expectations& expected, invariant_list& out);

/// The invariant of bytes, checked in every run, explored or not: I33.
std::unique_ptr<invariant> make_conservation(const loaded_scenario& what);

} // namespace millrace::simulator
