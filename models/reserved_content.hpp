// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/bytes.hpp"

namespace millrace {

/// Reserves address space for a file of `bytes` bytes that begins with `head`,
/// followed by zeros. Only the head takes memory while the rest is not read.
/// Contents without bytes, which simulated hosts send each other, lie in such a
/// space (arriving_file::reserved); a chunk is identified by its address.
/// Errors: overloaded where no address space is left.
result<shared_bytes> reserve_content(std::string_view head, uint64_t bytes);

} // namespace millrace
