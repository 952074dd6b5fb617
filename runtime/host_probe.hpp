// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace millrace {

/// What the system says of this host and this process: counts since their
/// start, and what is there now.
struct host_reading {
  double busy_seconds = 0;  ///< of all the host's cores
  double total_seconds = 0; ///< of all the host's cores, idle ones too
  double process_seconds = 0;
  uint64_t resident = 0;  ///< bytes of this process
  uint64_t available = 0; ///< bytes of the host, or of its control group
  uint64_t copied = 0;    ///< bytes of tensors, by this process
  uint64_t memory = 0;    ///< of those: whoever has them
};

using host_probe = std::function<host_reading()>;

/// The processes below this one: a node's run models that are not trusted.
struct children_reading {
  double seconds = 0;    ///< of cores, also of those that have ended
  uint64_t resident = 0; ///< bytes; pages that several share count in each
};

using children_probe = std::function<children_reading()>;

/// Reads /proc (the kernel's CONFIG_PROC_CHILDREN); what cannot be read stays
/// zero.
children_reading read_children();

/// Reads /proc; what cannot be read stays zero. Where this process is in
/// control groups that limit its memory (version 2, as containers have them)
/// the host's is no more than the tightest of them leaves.
host_reading read_host();

/// That limit, as the files below these folders have it, which are /proc/self
/// and /sys/fs/cgroup.
void limit_to_group(host_reading& x, const std::string& process,
                    const std::string& groups);

} // namespace millrace
