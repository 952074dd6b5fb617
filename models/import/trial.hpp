// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Trial runs: what a model's file does not tell of its outputs, its behaviour
/// on sample inputs does.

#include <string>
#include <vector>

#include "models/backend/backend.hpp"
#include "models/signature.hpp"

namespace millrace {

/// Whether requests can be put together along the signature's batch axis, and
/// sample inputs fit into memory.
/// Errors: bad_request, naming the input.
result<void> check_samples(const signature& s);

/// Runs the model on two and three sample rows. Fills in the outputs, with the
/// given names first, and sets the batch axis to -1 when a row's result depends
/// on its neighbours: requests must then not be merged. Returns what a person
/// may want to know, a sentence each.
/// Errors: bad_request when the model does not run on such inputs, or has
/// fewer outputs than names.
result<std::vector<std::string>>
learn_outputs(loaded_stage& stage, const std::vector<std::string>& names,
              signature& s);

} // namespace millrace
