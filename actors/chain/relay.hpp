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
  /// Makes memory for what comes.
  memory_maker memory = arriving_file::make;
  /// Draws the secrets by which its contents are given.
  std::function<std::string()> draw_token;
  std::shared_ptr<metrics> counts;
};

/// Gets contents from other hosts for its cache, and passes on what has come of
/// them so far: its part of every running chain. Tells chain controllers what
/// this host has and wants; they say from whom it is to get that.
relay_actor::behavior_type
relay(relay_actor::stateful_pointer<struct relay_state> self,
      relay_options options);

} // namespace millrace
