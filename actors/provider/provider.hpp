// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "actors/handles.hpp"
#include "actors/machine_source.hpp"
#include "runtime/store/store.hpp"

namespace millrace {

/// A pool of the config: its settings and its machines.
struct machine_pool {
  pool_state what;
  std::vector<std::string> machines; ///< names of all possible machines
};

struct provider_options {
  uint64_t epoch = 1; ///< of this controller
  std::map<std::string, machine_pool> pools;
  std::shared_ptr<machine_source> source;
  std::shared_ptr<store> facts;
  std::function<microseconds()> wall_clock; ///< empty: the clock of actors
};

/// The PROVIDER requests and releases machines according to proposals, and
/// keeps the ledger. A change is in the store, with the controller's epoch,
/// before the source gets the request, so that a new controller adopts the
/// machines. If the ledger was lost with its disk, machines that the source
/// lists are adopted.
///
/// A machine without a node is still billed. It is released after its node was
/// away for `patience` of the pool, and a replacement is requested.
provider_actor::behavior_type
provider(provider_actor::stateful_pointer<struct provider_state> self,
         provider_options options);

} // namespace millrace
