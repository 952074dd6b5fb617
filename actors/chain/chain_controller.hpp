// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "transport/bus.hpp"

namespace millrace {

struct chain_options {
  bus* net = nullptr;
  /// A relay that gets nothing for so long, although it could, is not to hold
  /// up others; for larger chunks than a real bundle's, longer in proportion.
  microseconds patience{500'000};
  bulk_topology topology = bulk_topology::chain;
  std::shared_ptr<metrics> counts;
};

/// Knows which hosts have which contents, and has those that want one stand in
/// chains; see chain_book. What it says to a relay is whom to get a content
/// from: all else, and what happens without it, is between relays.
chain_controller_actor::behavior_type chain_controller(
  chain_controller_actor::stateful_pointer<struct chain_controller_state> self,
  chain_options options);

} // namespace millrace
