// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/file_descriptor.hpp"

namespace millrace::confined {

/// Main loop of the program millrace-executor: the template of confined
/// processes, for the node at the other end of `node`. Loads the backend,
/// reports that, and forks a process per order until the node closes the
/// connection. Has a single thread, as fork(2) requires. With GPUs it loads
/// their libraries, but opens no GPU. Returns the exit status.
int be_template(file_descriptor node, bool with_gpus);

} // namespace millrace::confined
