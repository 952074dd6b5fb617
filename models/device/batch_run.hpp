// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/device/device.hpp"
#include "models/device/fitting_batch.hpp"
#include "models/device/run_pace.hpp"

namespace millrace {

/// What a batch runs on.
struct batch_environment {
  loaded_stage& stage;
  const signature& of;
  const run_pace& pace; ///< of all that ran there
  fitting_batch& fits;
  bool is_last = true;       ///< what it gives are the model's outputs
  nanoseconds first_pass{0}; ///< it may take that, while no pace is known
};

/// Puts the inputs of a batch's requests together, runs it, and takes what it
/// gives apart again; of a stage that is not the last one it stays together.
/// What there is no memory for is run in pieces, down to single requests, but
/// for batches that pass through several stages. Errors: as in_vain;
/// bad_request for a batch of nothing, and what gather says; overloaded when
/// there is no memory for one request; as loaded_stage::run.
result<std::vector<tensor_list>>
run_requests(const batch_environment& on, const execution& x, uint64_t& peak);

/// Of a batch's inputs.
size_t bytes_of(const std::vector<tensor_list>& items);

} // namespace millrace
