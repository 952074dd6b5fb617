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

/// A promise that was not kept.
struct violation {
  std::string invariant; ///< "I1"
  std::string what;
  microseconds at{0}; ///< since the world began
};

/// What an invariant ("I1"), or a promise about exploring ("P20"), demands: one
/// sentence. Empty for a name that is neither.
std::string_view meaning_of(std::string_view invariant);

/// Checks one of the invariants of the promises over a run: during it from what
/// it sees, and in the end, when everything has been healed and is quiet.
class invariant : public watcher {
public:
  explicit invariant(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }

  /// The run is over; `x` is as it was left.
  virtual void at_end(simulation& x) { static_cast<void>(x); }

  const std::vector<violation>& found() const { return found_; }

protected:
  /// Only the first few are kept.
  void broken(timestamp when, std::string what) {
    if (found_.size() < 4)
      found_.push_back(
        {name_, std::move(what), to_us(when - virtual_world::beginning)});
  }

private:
  std::string name_;
  std::vector<violation> found_;
};

/// What a run promises, where it is not the same for all.
struct expectations {
  const loaded_scenario* what = nullptr;
  timestamp begin;      ///< of the workload
  timestamp healed_at;  ///< all faults are over
  timestamp settled_at; ///< and their consequences too: liveness holds
  timestamp end;        ///< of the workload
};

using invariant_list = std::vector<std::unique_ptr<invariant>>;

/// What holds of requests: I1 to I6, I8, I13, I15. Not I7, since no model
/// promises an order.
void add_request_invariants(const ledger& l, const expectations& x,
                            invariant_list& out);

/// What holds of nodes, and of the cluster when all is well again: I9 to I12,
/// I14, I21, I22, I25, I26, I28, I29. Not I27, goodput under overload, which is
/// for a test of its own; I30 takes two runs.
void add_cluster_invariants(const ledger& l, const expectations& x,
                            invariant_list& out);

/// What holds of models that travel, when all is well again: I20, and I12 of
/// caches. I16 to I19 are for tests of their own.
void add_transfer_invariants(const expectations& x, invariant_list& out);

/// What holds of devices: I31, with the sharing that is configured.
void add_device_invariants(const expectations& x, invariant_list& out);

/// What holds of machines and bills: I32; nothing where there are no pools.
void add_machine_invariants(const expectations& x, invariant_list& out);

/// What holds of bytes in every run, explored or not: I33.
std::unique_ptr<invariant> make_conservation(const loaded_scenario& what);

} // namespace millrace::simulator
