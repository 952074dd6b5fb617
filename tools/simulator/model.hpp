// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/scenario.hpp"
#include "models/bundle.hpp"
#include "models/device/device.hpp"

namespace millrace::simulator {

/// Inputs up to here are marked with their request's id. Larger ones, which
/// share their bytes, and those of models of several layers have a tag beside
/// them, an input of its own, that is.
constexpr uint64_t marked_bytes = 4096;
constexpr uint64_t tag_bytes = 16;

inline bool is_tagged(const simulated_model& x) {
  return x.input.value > marked_bytes || x.layers > 1;
}

/// What points at a version.
inline std::vector<std::string> aliases_of(uint64_t version) {
  return version == 1 ? std::vector<std::string>{"default"}
                      : std::vector<std::string>{};
}

/// What a bundle of the model would say, had it any bytes.
manifest manifest_of(const std::string& name, uint64_t version,
                     simulated_model x);

/// The id that a simulated client marked its request's input with; 0: none.
uint64_t request_of(const tensor_list& inputs);

/// Those of all requests in a batch.
std::vector<uint64_t> requests_of(const execution& x);

} // namespace millrace::simulator
