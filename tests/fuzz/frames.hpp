// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/wire.hpp"

namespace millrace::fuzz {

/// The frames of one message in a file: each a length of two bytes, low byte
/// first, and so many bytes; the last may be cut short.
std::vector<shared_bytes> split_frames(const_bytes input);

/// The reverse; frames over 65,535 bytes are cut.
std::string join_frames(const std::vector<shared_bytes>& frames);

/// The time at which everything here is decoded.
timestamp now();

/// A received message; its body is borrowed from the first frame. Nothing when
/// the header is refused.
std::optional<wire_message> receive(const std::vector<shared_bytes>& frames);

/// Ends the program when the rule is broken; every build.
void require(bool holds, const char* rule);

/// Promise P11: what decoding holds at most, for an input of that size.
constexpr size_t memory_allowed(size_t input_bytes) {
  return 4 * input_bytes + 65'536;
}

} // namespace millrace::fuzz
