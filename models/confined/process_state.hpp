// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sys/types.h>

namespace millrace::confined {

/// State of a process, from proc(5).
struct process_state {
  bool stopped = false; ///< by a signal, or a debugger
  long threads = 0;
};

/// Reads proc(5), stat; all fields are zero for a process that has ended.
process_state look_at(pid_t process);

/// Bytes of the process's private memory, by proc(5), statm; 0 for a process
/// that has ended.
uint64_t private_bytes_of(pid_t process);

} // namespace millrace::confined
