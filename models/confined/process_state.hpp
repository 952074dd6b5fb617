// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace millrace::confined {

/// What the system says of a process.
struct process_state {
  bool stopped = false; ///< by a signal, or a debugger
  long threads = 0;
};

/// By proc(5), stat; of one that is gone nothing.
process_state look_at(pid_t process);

} // namespace millrace::confined
