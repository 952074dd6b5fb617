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

/// Denies access to files with Landlock: restricts all rights that the known
/// versions have, and grants none. From now on the process can open no file,
/// use no TCP port, and signal no other process. No effect on a kernel without
/// Landlock. The process must have given up new privileges
/// (PR_SET_NO_NEW_PRIVS).
/// Errors: unavailable, with the system's reason.
result<void> deny_files();

/// Gives up for good all rights that a model does not need. Open files and
/// connections stay open. Otherwise this process and its later threads can only
/// compute, and allocate `memory` more bytes.
/// - Limits: address space, no file that grows, no core dump, few descriptors.
///   None of processor time, for the process may serve for months: a run that
///   takes too long is ended by its deadline or the device's run_limit. None of
///   processes, for seccomp denies them.
/// - Landlock (deny_files). A kernel without it is accepted: seccomp suffices.
/// - seccomp(2): only the calls on a short list; others return EPERM. The list
///   has no call that opens, names or creates a file, a socket, a process or a
///   program, inspects or signals another process, or changes the system.
///
/// A process with a GPU, which it has opened before, may use all calls of the
/// driver. Its address space has no limit, for the driver maps large ranges;
/// the node watches its memory instead. A process that stages share has more
/// descriptors.
/// Errors: unavailable when the system refuses one of these.
result<void> confine(byte_count memory, bool with_gpu, bool shared);

} // namespace millrace::confined
