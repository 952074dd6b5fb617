// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "runtime/random.hpp"
#include "simulator/contents.hpp"
#include "simulator/host_faults.hpp"
#include "simulator/watcher.hpp"
#include "transport/objects/object_store.hpp"
#include "transport/simulated/network.hpp"

namespace millrace::simulator {

/// The environment of the connection from a simulated host to the object store.
struct objects_environment {
  std::string node;
  host_number host = 0;
  virtual_process& process;
  simulated_network& network;
  contents& what;
  std::shared_ptr<const host_faults> faults;
  random_stream random;
  watcher& seen_by;
};

/// The object store, reached from a simulated host over `parallel` connections
/// through the simulated network. The store has the scenario's models with the
/// place `store`. The part host_faults::failing_fetches of all requests fails
/// with unavailable.
std::unique_ptr<object_store>
make_simulated_objects(objects_environment environment, size_t parallel);

} // namespace millrace::simulator
