// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "transport/bus.hpp"

namespace millrace {

struct chain_options {
  bus* net = nullptr;
  /// Time without a chunk after which a relay is moved to the end of its chain.
  /// In proportion longer for chunks above `chunk_bytes`.
  microseconds patience{500'000};
  bulk_topology topology = bulk_topology::chain;
  std::shared_ptr<metrics> counts;
};

/// Records the contents of all hosts and plans chains for the wanted contents;
/// see chain_book. Sends relays the sources of each content. Relays transfer
/// the chunks among themselves, also while no controller is up.
chain_controller_actor::behavior_type chain_controller(
  chain_controller_actor::stateful_pointer<struct chain_controller_state> self,
  chain_options options);

} // namespace millrace
