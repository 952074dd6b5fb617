// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Machines of pools in a simulated cluster: their sources and their costs.

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/machine_source.hpp"
#include "config/scenario.hpp"
#include "runtime/virtual/world.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

class node;

/// A simulated cloud: boots nodes of pools when machines are requested, drains
/// and ends these nodes when machines are released. A lease costs from its
/// begin, whatever happens to the node. A machine that is requested again keeps
/// its disk.
class machine_yard {
public:
  machine_yard(virtual_world& world, const cluster_config& config,
               watcher& seen_by)
    : world_(world),
      config_(config),
      seen_by_(seen_by) {}

  /// Adds a machine's node; ignored for a node outside pools.
  void add(node& host);
  bool has(const std::string& name) const { return machines_.contains(name); }

  /// The machine source for the controller in this process.
  std::shared_ptr<machine_source> source_for(virtual_process& process);

  /// A fault that ends the machine's process, or its boot.
  void kill(const std::string& name);
  /// The end of such a fault: the node, or its boot, starts again.
  void start(const std::string& name);

private:
  friend class yard_source;

  struct machine {
    node* where = nullptr;
    sourced_machine lease{{}, 0, microseconds{0}, microseconds{0}};
    microseconds boot{0};
    bool booted = false;  ///< the lease's boot time is over
    bool down = false;    ///< because of a fault
    bool leaving = false; ///< drains before its release
    timestamp leave_by;   ///< deadline of the drain; then the process is killed
    std::vector<machine_source::answer> ended; ///< calls waiting for the end
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

/// Reports as machine events `in_use` and `idle` when a host gets its first
/// replica and when it loses its last one.
class use_meter : public watcher {
public:
  explicit use_meter(watcher& to) : to_(to) {}

  void on_load_begun(const device_name& where, const load_request& request,
                     timestamp when) override;
  void on_loaded(const device_name& where, const load_request& request,
                 timestamp begun, const result<load_report>& how,
                 timestamp when) override;
  void on_unloaded(const device_name& where, instance_id instance,
                   timestamp when) override;
  void on_node(const std::string& node, std::string_view what,
               timestamp when) override;

private:
  void gone(const std::string& node, const std::string& instance,
            timestamp when);

  watcher& to_;
  /// Loaded or loading replicas by node, as DEVICE#INSTANCE.
  std::map<std::string, std::set<std::string>> held_;
};

/// A lease of a machine, or the whole run for a host outside pools. Times count
/// from the start of the workload.
struct machine_lease {
  std::string machine;
  microseconds requested{0};
  std::optional<microseconds> started;  ///< first start of the node
  std::optional<microseconds> ready;    ///< as the provider reported it
  std::optional<microseconds> draining; ///< when the drain was requested
  std::optional<microseconds> released;
  /// Times with at least one replica; the last one may have no end.
  std::vector<std::pair<microseconds, std::optional<microseconds>>> used;
};

/// Records leases from the events of nodes and machines. A machine is billed
/// from its request to its release, a host outside pools from its first start
/// to the end of the run. A killed host is still billed.
class lease_book {
public:
  explicit lease_book(timestamp begin) : begin_(begin) {}

  /// Records an event of a node or a machine, named as in `on_node` and
  /// `on_machine`.
  void note(const std::string& machine, std::string_view what, timestamp when);

  const std::vector<machine_lease>& leases() const { return leases_; }

private:
  timestamp begin_;
  std::vector<machine_lease> leases_;
  std::map<std::string, size_t> open_; ///< index of the machine's open lease
};

/// Reserved and used costs of one pool over the workload.
struct pool_bill {
  std::string pool;          ///< empty: hosts outside pools
  uint64_t machines = 0;     ///< leases within the workload
  double hours_reserved = 0; ///< from request to release
  double hours_used = 0;     ///< part of these with at least one replica
  double cost_reserved = 0;
  double cost_used = 0;
  MILLRACE_FIELDS(pool_bill, pool, machines, hours_reserved, hours_used,
                  cost_reserved, cost_used)
};

/// Reserved and used time of a lease within [0, length).
std::pair<microseconds, microseconds> billed(const machine_lease& lease,
                                             microseconds length);

/// The pool of a node; empty: none.
std::string pool_of(const loaded_scenario& what, const std::string& node);

/// The costs by pool, sorted by name.
std::vector<pool_bill> bills_of(const loaded_scenario& what,
                                const std::vector<machine_lease>& leases,
                                microseconds length);

} // namespace millrace::simulator
