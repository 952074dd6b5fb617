// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/device/device.hpp"
#include "models/device/run_pace.hpp"

namespace millrace {

/// What a batch runs on.
struct batch_ground {
  loaded_stage& stage;
  const signature& of;
  const run_pace& pace;      ///< of all that ran there
  bool is_last = true;       ///< what it gives are the model's outputs
  nanoseconds first_pass{0}; ///< it may take that, while no pace is known
};

/// Puts the inputs of a batch's requests together, runs it, and takes what it
/// gives apart again; of a stage that is not the last one it stays together.
/// Errors: as in_vain; bad_request for a batch of nothing, and what gather
/// says; overloaded without memory; as loaded_stage::run.
result<std::vector<tensor_list>> run_batch(const batch_ground& on,
                                           const execution& x, uint64_t& peak);

/// Of a batch's inputs.
size_t bytes_of(const std::vector<tensor_list>& items);

} // namespace millrace
