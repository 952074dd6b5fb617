// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace::simulator {

/// What faults do to a host, while they last.
struct host_faults {
  double failing_executions = 0; ///< part of them
  double ending_executions = 0;  ///< part of them, with their model's process
  double failing_loads = 0;      ///< onto devices
  double failing_fetches = 0;    ///< from the object store
  double failing_writes = 0;     ///< and syncs, of its disk
  bool unusable_devices = false; ///< nothing runs on them
};

} // namespace millrace::simulator
