// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "runtime/bytes.hpp"

namespace millrace {

/// Address space for a file of `bytes` bytes that begins with `head` and holds
/// zeros behind that. Only the head takes memory, as long as the rest is not
/// read: contents without bytes, which simulated hosts give each other, lie in
/// it (arriving_file::reserved), and a chunk of one is known by its address.
/// Errors: overloaded where the system has no address space left.
result<shared_bytes> reserve_content(std::string_view head, uint64_t bytes);

} // namespace millrace
