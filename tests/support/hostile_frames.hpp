// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Hostile messages of clients, shared by unit tests of the decoder, by the
/// seeds of fuzzers, and by tests of a real gateway.

#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace::test {

/// A message and its one expected answer from a gateway that serves "identity"
/// with input F32[-1, 4].
struct hostile_frame {
  std::string item;  ///< item in the list of P11
  std::string first; ///< frame: headers and bodies
  std::vector<std::string> raw;
  ec status = ec::ok;
  std::string says; ///< complete text of the answer
  /// Id of the answer; 0 if the header is unreadable.
  uint64_t id = 1;
  /// The message decodes without error, so the gateway must refuse it.
  bool decodes = false;
};

/// Headers, keys, claims, depths, limits, deadlines, names.
std::vector<hostile_frame> hostile_envelopes();

/// Dtypes, extents and bytes that contradict each other.
std::vector<hostile_frame> hostile_tensors();

} // namespace millrace::test
