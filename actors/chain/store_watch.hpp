// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "transport/bus.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

struct store_watch_options {
  bus* net = nullptr;
  std::string name; ///< of the store, in the config
  object_store_config settings;
  std::shared_ptr<object_store> store;
  supervisor_actor owner; ///< hears what there is
};

/// Reads an object store's index now and then. To its node's chain controller
/// the store is a host that has what is in it; hosts then read it themselves.
store_watch_actor::behavior_type
store_watch(store_watch_actor::stateful_pointer<struct store_watch_state> self,
            store_watch_options options);

} // namespace millrace
