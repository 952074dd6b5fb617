// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace millrace {

/// Counters since start, and current values, of this host and this process.
struct host_reading {
  double busy_seconds = 0;  ///< CPU time, summed over the host's cores
  double total_seconds = 0; ///< busy and idle time, summed over the cores
  double process_seconds = 0;
  uint64_t resident = 0;  ///< resident bytes of this process
  uint64_t available = 0; ///< available bytes of the host or its control group
  uint64_t copied = 0;    ///< bytes of tensors copied by this process
  uint64_t memory = 0;    ///< total bytes of the host or its control group
};

using host_probe = std::function<host_reading()>;

/// Usage of all descendants of this process; those of a node run untrusted
/// models.
struct children_reading {
  double seconds = 0;    ///< CPU seconds, including those of ended processes
  uint64_t resident = 0; ///< bytes; a shared page counts in each process
};

using children_probe = std::function<children_reading()>;

/// Reads /proc (needs the kernel's CONFIG_PROC_CHILDREN). Unreadable values
/// stay zero.
children_reading read_children();

/// Reads /proc; unreadable values stay zero. Control groups (version 2, as in
/// containers) may limit the memory of this process. Then the host's available
/// memory is at most what the tightest limit leaves.
host_reading read_host();

/// Applies this limit. `process` and `groups` are the folders to read, normally
/// /proc/self and /sys/fs/cgroup.
void limit_to_group(host_reading& reading, const std::string& process,
                    const std::string& groups);

} // namespace millrace
