// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/scenario.hpp"
#include "models/bundle.hpp"
#include "models/device/device.hpp"

namespace millrace::simulator {

/// Inputs up to this size carry their request's id in their first bytes. Larger
/// inputs, which share bytes, and inputs of models with several layers have a
/// tag as an additional input.
constexpr uint64_t marked_bytes = 4096;
constexpr uint64_t tag_bytes = 16;

inline bool is_tagged(const simulated_model& model) {
  return model.input.value > marked_bytes || model.layers > 1;
}

/// The aliases that point to a version.
inline std::vector<std::string> aliases_of(uint64_t version) {
  return version == 1 ? std::vector<std::string>{"default"}
                      : std::vector<std::string>{};
}

/// The manifest of the model's bundle.
manifest manifest_of(const std::string& name, uint64_t version,
                     simulated_model model);

/// The request id that a simulated client wrote into the inputs; 0: none.
uint64_t request_of(const tensor_list& inputs);

/// The request ids of all requests in a batch.
std::vector<uint64_t> requests_of(const execution& batch);

} // namespace millrace::simulator
