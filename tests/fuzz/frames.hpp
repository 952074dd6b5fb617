// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/wire.hpp"

namespace millrace::fuzz {

/// Splits a file into the frames of one message. Each frame follows a length of
/// two bytes, low byte first; the last frame may be truncated.
std::vector<shared_bytes> split_frames(const_bytes input);

/// The reverse of split_frames; frames over 65,535 bytes are truncated.
std::string join_frames(const std::vector<shared_bytes>& frames);

/// The time at which all targets decode.
timestamp now();

/// The received message, with a body that refers to the first frame; empty if
/// the header is refused.
std::optional<wire_message> receive(const std::vector<shared_bytes>& frames);

/// Ends the program if the rule is broken, in every build.
void require(bool holds, const char* rule);

/// Promise P11: the most memory that decoding may hold for an input of
/// `input_bytes`.
constexpr size_t memory_allowed(size_t input_bytes) {
  return 4 * input_bytes + 65'536;
}

} // namespace millrace::fuzz
