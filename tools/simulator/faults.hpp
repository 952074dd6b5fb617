// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/cluster.hpp"
#include "simulator/ready_replicas.hpp"

namespace millrace::simulator {

/// A fault, at a point in time of the run.
struct fault {
  microseconds at{0}; ///< since the start of the workload
  fault_kind kind = fault_kind::kill;
  std::string node;      ///< by name, or "in-use:MODEL" until it is injected
  microseconds lasts{0}; ///< 0: permanent
  double part = 0;
  double factor = 1;
  microseconds by{0};
  std::string actor; ///< prefix of the actor's name, for a crash
  uint64_t lot = 0;  ///< draws one of several actors or nodes
};

/// "kill w-1 at 2.31 s for 500 ms".
std::string to_string(const fault& event);

/// The faults of a scenario with random choices drawn, sorted by time.
std::vector<fault> plan_faults(const loaded_scenario& what,
                               random_stream random);

/// Options of a storm of random faults.
struct storm {
  microseconds begin{0};
  microseconds length{0};
  size_t most = 12; ///< limit for the number of faults
};

/// Random faults in the manner of swarm testing: each kind is left out of a run
/// with probability one half, so that runs differ in the kinds they combine
/// (Groce et al., ISSTA 2012). All faults end within the storm.
std::vector<fault> draw_storm(const loaded_scenario& what, const storm& how,
                              random_stream random);

/// Injects faults into a cluster, and ends them. If several faults are active
/// at a node, the worst of each kind applies; the node is restarted when no
/// active fault keeps it down.
class fault_injector {
public:
  fault_injector(cluster& target, const ready_replicas& ready)
    : cluster_(target),
      ready_(ready) {}

  /// Begins a fault, and schedules its end. A fault at "in-use:MODEL" has no
  /// effect if no running node has a ready replica of the model.
  void inject(const fault& planned);

  /// Ends all faults: every node runs and reaches every other node.
  void heal();

private:
  std::string node_of(const fault& event) const;
  void strike(const fault& event, node& where);
  void end(uint64_t number);
  void adjust(const fault& event, node& where);
  void cut_off(node& host, bool out, bool in);
  void join_again(node& host, bool out, bool in);
  template <class F>
  double worst(const fault& like, double none, F of) const;

  cluster& cluster_;
  const ready_replicas& ready_;
  std::map<uint64_t, fault> on_; ///< active faults, in the order of their begin
  uint64_t last_ = 0;
  std::map<std::pair<host_number, host_number>, int> cuts_;
};

} // namespace millrace::simulator
