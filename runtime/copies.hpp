// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/bytes.hpp"

namespace millrace {

/// \file
/// Bulk bytes are passed on by reference; where they have to be copied all the
/// same, that is counted.

/// Copies a tensor's bytes. `to` has room for them.
void copy_counted(std::byte* to, const_bytes from);

/// Counts bytes that were copied elsewhere on this process's behalf.
void count_copied(uint64_t bytes);

/// How many bytes of tensors this process has copied so far. Not counted are
/// those that travel within a message's text (1 KiB and less), and what
/// LibTorch and the kernel copy.
uint64_t bytes_copied();

} // namespace millrace
