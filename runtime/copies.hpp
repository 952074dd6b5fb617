// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/bytes.hpp"

namespace millrace {

/// \file
/// Counts the copies of bulk data. Bulk data is passed by reference; a copy
/// that cannot be avoided is counted here.

/// Copies a tensor's bytes and counts them. `to` must have room for `from`.
void copy_counted(std::byte* to, const_bytes from);

/// Counts bytes that other code of this process copied.
void count_copied(uint64_t bytes);

/// Bytes of tensors that this process has copied so far. Not counted: tensors
/// that travel within a message's text (1 KiB or less), and copies by LibTorch
/// and the kernel.
uint64_t bytes_copied();

} // namespace millrace
