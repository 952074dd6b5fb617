// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Machines of pools in a simulated cluster: where they come from, and what
/// they cost.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/provider/machine_source.hpp"
#include "config/scenario.hpp"
#include "runtime/virtual/world.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

class node;

/// A simulated cloud: boots nodes of pools when they are requested, drains and
/// ends them when they are released. A lease that has begun costs, whatever
/// becomes of the node. A machine that is requested again has its disk as it
/// was.
class machine_yard {
public:
  machine_yard(virtual_world& world, const cluster_config& config,
               watcher& seen_by)
    : world_(world),
      config_(config),
      seen_by_(seen_by) {}

  /// Adds the node of a machine; ignored for a node outside pools.
  void add(node& x);
  bool has(const std::string& name) const { return machines_.contains(name); }

  /// The source as the controller in a process uses it.
  std::shared_ptr<machine_source> source_for(virtual_process& process);

  /// A fault ends the machine's process, or its boot.
  void kill(const std::string& name);
  /// The end of such a fault: the node of a lease goes on where it was.
  void start(const std::string& name);

private:
  friend class yard_source;

  struct machine {
    node* where = nullptr;
    sourced_machine lease{{}, 0, microseconds{0}, microseconds{0}};
    microseconds boot{0};
    bool booted = false;  ///< the boot time of the lease is over
    bool down = false;    ///< by a fault
    bool leaving = false; ///< to be released
    timestamp leave_by;   ///< then its process is ended
    std::vector<machine_source::answer> ended; ///< calls that wait for the end
  };

  const sourced_machine& request(const std::string& name, uint64_t lease);
  void release(const std::string& name, uint64_t lease,
               machine_source::answer done);
  void boot(const std::string& name, uint64_t lease);
  void await_end(const std::string& name);
  void tell(const std::string& name, std::string_view what);
  microseconds wall_time() const;

  virtual_world& world_;
  const cluster_config& config_;
  watcher& seen_by_;
  std::map<std::string, machine> machines_;
};

/// Reports when the first replica comes to a host and when the last one goes,
/// as machine events `in_use` and `idle`.
class use_meter : public watcher {
public:
  explicit use_meter(watcher& to) : to_(to) {}

  void on_load_begun(const device_name& where, const load_request& x,
                     timestamp when) override;
  void on_loaded(const device_name& where, const load_request& x,
                 timestamp begun, const result<load_report>& how,
                 timestamp when) override;
  void on_unloaded(const device_name& where, instance_id x,
                   timestamp when) override;
  void on_node(const std::string& node, std::string_view what,
               timestamp when) override;

private:
  void gone(const std::string& node, const std::string& instance,
            timestamp when);

  watcher& to_;
  /// Loaded or loading, by node: DEVICE#INSTANCE.
  std::map<std::string, std::set<std::string>> held_;
};

/// One lease of a machine, or the whole life of a host outside pools. Points in
/// time count from the start of the workload.
struct machine_lease {
  std::string machine;
  microseconds requested{0};
  std::optional<microseconds> started;  ///< its node, for the first time
  std::optional<microseconds> ready;    ///< as the provider saw it
  std::optional<microseconds> draining; ///< it was told to
  std::optional<microseconds> released;
  /// With a replica on it; the last one may have no end.
  std::vector<std::pair<microseconds, std::optional<microseconds>>> used;
};

/// Writes leases down from the events of nodes and machines. A host outside
/// pools is billed from its first start to the end of the run; so is a machine
/// from its request to its release. A host that was killed is billed on.
class lease_book {
public:
  explicit lease_book(timestamp begin) : begin_(begin) {}

  /// What happened to a node or a machine, by the names of `on_node` and
  /// `on_machine`.
  void note(const std::string& machine, std::string_view what, timestamp when);

  const std::vector<machine_lease>& leases() const { return leases_; }

private:
  timestamp begin_;
  std::vector<machine_lease> leases_;
  std::map<std::string, size_t> open_; ///< by machine: number of its lease
};

/// The two bills of one pool over the workload.
struct pool_bill {
  std::string pool;          ///< empty: hosts outside pools
  uint64_t machines = 0;     ///< leases within the workload
  double hours_reserved = 0; ///< from request to release
  double hours_used = 0;     ///< of these, with at least one replica
  double cost_reserved = 0;
  double cost_used = 0;
  MILLRACE_FIELDS(pool_bill, pool, machines, hours_reserved, hours_used,
                  cost_reserved, cost_used)
};

/// Microseconds of a lease within [0, length): reserved and used.
std::pair<microseconds, microseconds> billed(const machine_lease& x,
                                             microseconds length);

/// The pool of a node; empty: none.
std::string pool_of(const loaded_scenario& what, const std::string& node);

/// The bills by pool, in order of their names.
std::vector<pool_bill> bills_of(const loaded_scenario& what,
                                const std::vector<machine_lease>& leases,
                                microseconds length);

} // namespace millrace::simulator
