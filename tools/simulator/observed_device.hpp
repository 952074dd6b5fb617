// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/virtual/world.hpp"
#include "simulator/host_faults.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// The place of a device, and the watcher of its events.
struct device_place {
  std::string node;
  std::string device;
  uint32_t lanes = 1;
  virtual_process* process = nullptr;
  std::shared_ptr<const host_faults> faults;
  random_stream random;
  watcher* seen_by = nullptr;
  bool forgets_to_unload = false;
};

/// Wraps a device: reports its events to the watcher, and injects faults. The
/// first bytes of each request's input are copied to the request's output, so
/// that invariants can match answers with requests.
std::unique_ptr<device> observe_device(
  device_place place, device_listener& to,
  const std::function<std::unique_ptr<device>(device_listener&)>& make);

} // namespace millrace::simulator
