// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/device/device.hpp"
#include "models/device/fitting_batch.hpp"
#include "models/device/run_pace.hpp"

namespace millrace {

/// The stage of a batch, and the stage's surroundings.
struct batch_environment {
  loaded_stage& stage;
  const signature& of;
  const run_pace& pace; ///< of all runs of these layers
  fitting_batch& fits;
  bool is_last = true;       ///< its outputs are the model's outputs
  nanoseconds first_pass{0}; ///< allowed time while no pace is known
};

/// Joins the inputs of a batch's requests, runs the stage, and splits the
/// outputs by request; outputs of a stage that is not the last stay joined. If
/// memory runs out, the batch is run in pieces, down to single requests, unless
/// it passes through several stages.
/// Errors: as in_vain; bad_request for an empty batch, and as gather;
/// overloaded when there is no memory for one request; as loaded_stage::run.
result<std::vector<tensor_list>> run_requests(const batch_environment& on,
                                              const execution& batch,
                                              uint64_t& peak);

/// Bytes of a batch's inputs.
size_t bytes_of(const std::vector<tensor_list>& items);

} // namespace millrace
