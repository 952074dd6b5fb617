// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sys/types.h>

namespace millrace::confined {

/// What the system says of a process.
struct process_state {
  bool stopped = false; ///< by a signal, or a debugger
  long threads = 0;
};

/// By proc(5), stat; of one that is gone nothing.
process_state look_at(pid_t process);

/// Bytes of memory that it has to itself, by proc(5), statm; likewise.
uint64_t private_bytes_of(pid_t process);

} // namespace millrace::confined
