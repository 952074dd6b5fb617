// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/file_descriptor.hpp"

namespace millrace::confined {

/// What the program millrace-executor does: the template of confined
/// processes, for the node at the other end of `node`. Loads the backend, says
/// so, and forks a process whenever the node asks, for as long as that lives.
/// It has one thread, so that a fork is whole. With GPUs it loads what they
/// will need, and opens none. Returns the exit status.
int be_template(file_descriptor node, bool with_gpus);

} // namespace millrace::confined
