// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "config/scenario.hpp"
#include "simulator/cluster.hpp"
#include "simulator/ready_replicas.hpp"

namespace millrace::simulator {

/// One thing that goes wrong, at a point of the run.
struct fault {
  microseconds at{0}; ///< since the start of the workload
  fault_kind kind = fault_kind::kill;
  std::string node;      ///< by name, or "in-use:MODEL" until it is injected
  microseconds lasts{0}; ///< 0: for good
  double part = 0;
  double factor = 1;
  microseconds by{0};
  std::string actor; ///< a crash's: what its name begins with
  uint64_t lot = 0;  ///< draws one of several actors or nodes
};

/// "kill w-1 at 2.31 s for 500 ms".
std::string to_string(const fault& x);

/// What a scenario says goes wrong, with chance settled: in order of time.
std::vector<fault> plan_faults(const loaded_scenario& what,
                               random_stream random);

/// How long a storm lasts and what may happen in it.
struct storm {
  microseconds begin{0};
  microseconds length{0};
  size_t most = 12; ///< faults
};

/// Faults drawn by chance, in the manner of swarm testing: each kind is left
/// out of a run with probability one half, so that runs differ in what they
/// combine (Groce et al., ISSTA 2012). All are over when the storm is.
std::vector<fault> draw_storm(const loaded_scenario& what, const storm& how,
                              random_stream random);

/// Does faults to a cluster, and undoes them. Several may be on at a node: it
/// has the worst of each kind, and is started again when nothing keeps it down.
class fault_injector {
public:
  fault_injector(cluster& x, const ready_replicas& ready)
    : cluster_(x),
      ready_(ready) {}

  /// Begins a fault; its end is scheduled. A fault at "in-use:MODEL" has no
  /// effect while no running node has a ready replica of the model.
  void inject(const fault& planned);

  /// Undoes all there is: every node runs and reaches every other.
  void heal();

private:
  std::string node_of(const fault& x) const;
  void strike(const fault& x, node& where);
  void end(uint64_t number);
  void adjust(const fault& x, node& where);
  void cut_off(node& x, bool out, bool in);
  void join_again(node& x, bool out, bool in);
  template <class F>
  double worst(const fault& like, double none, F of) const;

  cluster& cluster_;
  const ready_replicas& ready_;
  std::map<uint64_t, fault> on_; ///< in the order in which they began
  uint64_t last_ = 0;
  std::map<std::pair<host_number, host_number>, int> cuts_;
};

} // namespace millrace::simulator
