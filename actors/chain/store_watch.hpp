// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "transport/bus.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

struct store_watch_options {
  bus* net = nullptr;
  std::string name; ///< name of the store in the config
  object_store_config settings;
  std::shared_ptr<object_store> store;
  supervisor_actor owner; ///< gets stored_models
};

/// Reads the index of an object store periodically and reports the store to the
/// chain controller of its node as a host with the stored contents. Relays read
/// the store directly.
store_watch_actor::behavior_type
store_watch(store_watch_actor::stateful_pointer<struct store_watch_state> self,
            store_watch_options options);

} // namespace millrace
