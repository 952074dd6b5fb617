// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "actors/handles.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

/// Makes an executor's device, which completes through the listener.
using device_factory =
  std::function<result<std::unique_ptr<device>>(device_listener&)>;

/// Owns one device. Batches wait here by priority and arrival, until the
/// sharing of the device and the limit of their replica admit them
/// (admission.hpp). By default the device gets one more batch per lane than it
/// runs, so that no lane waits for the actor. Completions of device threads
/// arrive as messages, handled by `host` (null: CAF's own workers).
///
/// A device is out of service, its replicas are lost and the supervisor gets a
/// message in three cases, each until the device works again:
/// - it cannot be opened;
/// - it reports that it cannot run anything;
/// - it is hung: trusted code has run on every lane for a minute after its
///   deadline.
executor_actor::behavior_type
executor(executor_actor::stateful_pointer<struct executor_state> self,
         device_info info, device_factory make, supervisor_actor owner,
         caf::execution_unit* host, std::shared_ptr<metrics> counts,
         std::shared_ptr<span_recorder> spans);

} // namespace millrace
