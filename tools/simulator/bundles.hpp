// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <set>
#include <string>

#include "actors/cache/cache.hpp"
#include "config/scenario.hpp"
#include "simulator/host_faults.hpp"
#include "simulator/real_bundles.hpp"
#include "simulator/watcher.hpp"
#include "transport/simulated/network.hpp"

namespace millrace::simulator {

/// Where a simulated host's bundles come from.
struct bundle_environment {
  std::string node;
  const scenario& what;
  virtual_process& process;
  simulated_network& network;
  host_number host = 0;
  /// Versions whose bytes this host has fetched: outlives the process.
  std::shared_ptr<std::set<std::string>> here;
  std::shared_ptr<const host_faults> faults;
  real_bundles& real;
  random_stream random;
  watcher& seen_by;
};

/// A reader of bundles that have no bytes, but for those that hosts give each
/// other. Of the former, what is not on the host's disk is fetched from the
/// object store, in chunks over the network, and is there from then on.
std::shared_ptr<bundle_reader>
make_simulated_reader(bundle_environment environment);

} // namespace millrace::simulator
