// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "models/bundle.hpp"
#include "runtime/metrics.hpp"
#include "transport/bulk/bulk.hpp"
#include "transport/bus.hpp"

namespace millrace {

struct relay_options {
  bus* net = nullptr;
  std::shared_ptr<bulk_port> port;
  /// Allocates memory for arriving contents.
  memory_maker memory = arriving_file::make;
  /// Draws the token that a receiver of a content must present.
  std::function<std::string()> draw_token;
  std::shared_ptr<metrics> counts;
};

/// Fetches contents from other hosts for its cache, and relays chunks to the
/// next host of each chain. Reports the contents that this host has and wants
/// to chain controllers, which name the sources.
relay_actor::behavior_type
relay(relay_actor::stateful_pointer<struct relay_state> self,
      relay_options options);

} // namespace millrace
