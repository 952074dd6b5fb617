// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace millrace::simulator {

/// The active faults of a host.
struct host_faults {
  double failing_executions = 0; ///< part of all executions
  double ending_executions = 0;  ///< part of all executions; these end the
                                 ///< model's process, too
  double failing_loads = 0;      ///< part of all loads onto devices
  double failing_fetches = 0;    ///< part of all fetches from the object store
  double failing_writes = 0;     ///< part of all writes and syncs of the disk
  bool unusable_devices = false; ///< devices run nothing
};

} // namespace millrace::simulator
