// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/error.hpp"
#include "runtime/units.hpp"

namespace millrace::confined {

/// The user of the sandboxed processes of a node that root runs: an id of its
/// own for each node of a host, from a range that no account has (0x70000000
/// and the node's process id), so that sandboxed processes of two nodes have
/// different users. With NVIDIA's MPS the user is 65534, which owns the folder
/// of MPS.
uint32_t sandbox_user(int node_process);

/// Changes the user of a process that root runs. Processes of other users keep
/// theirs. Errors: unavailable, with the system's reason.
result<void> become_user(uint32_t id);

/// By Landlock, of which all rights that its version here knows are asked for
/// and none is given: from now on no file can be opened, no TCP port used, no
/// process but its own signalled. Nothing where the kernel is without it. The
/// process must have given up new privileges.
/// Errors: unavailable, with the system's reason.
result<void> deny_files();

/// Gives up for good what a model has no need of. The files and connections
/// that are open stay so; beside them this process, and every thread that it
/// starts from now on, can compute, and take so much more memory than it has.
/// - Limits: address space, no file that grows, no core dump, few descriptors.
///   None of processor time, for it may serve for months: what runs too long is
///   ended by its deadline or the device's run_limit. None of processes, for it
///   can make none.
/// - Landlock (deny_files). A kernel without it is not refused: what follows is
///   enough.
/// - seccomp(2): only the calls on a short list; others answer EPERM. Not on
///   it is whatever opens, names or makes a file, a socket, a process or a
///   program, looks into or signals another process, or changes the system.
/// With a GPU, which it has opened, it may do all that the driver lets it, and
/// the address space has no limit, for the driver maps what it likes: whoever
/// has started it looks at its memory. One that stages share has more
/// descriptors.
/// Errors: unavailable when the system refuses one of these.
result<void> confine(byte_count memory, bool with_gpu, bool shared);

} // namespace millrace::confined
