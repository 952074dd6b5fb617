// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace millrace {

/// What the system says of this host and this process: counts since their
/// start, and what is there now.
struct host_reading {
  double busy_seconds = 0;  ///< of all the host's cores
  double total_seconds = 0; ///< of all the host's cores, idle ones too
  double process_seconds = 0;
  uint64_t resident = 0;  ///< bytes of this process
  uint64_t available = 0; ///< bytes of the host
  uint64_t copied = 0;    ///< bytes of tensors, by this process
  uint64_t memory = 0;    ///< bytes of the host, whoever has them
};

using host_probe = std::function<host_reading()>;

/// Reads /proc; what cannot be read stays zero.
host_reading read_host();

} // namespace millrace
