// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What a hostile client says, once: unit tests hold what decoding answers,
/// fuzzers start from it, and a real gateway is told it.

#include <string>
#include <vector>

#include "runtime/error.hpp"

namespace millrace::test {

/// A message and the one answer it gets from a gateway that serves "identity",
/// whose input is F32[-1, 4].
struct hostile_frame {
  std::string item;  ///< of the list of promise P11
  std::string first; ///< frame: headers and bodies
  std::vector<std::string> raw;
  ec status = ec::ok;
  std::string says; ///< the answer's text, whole
  /// Of the answer: 0 where the header could not be read.
  uint64_t id = 1;
  /// Decoding finds nothing wrong: the gateway has to.
  bool decodes = false;
};

/// Headers, keys, claims, depths, limits, deadlines, names.
std::vector<hostile_frame> hostile_envelopes();

/// Dtypes, extents and bytes that do not belong together.
std::vector<hostile_frame> hostile_tensors();

} // namespace millrace::test
