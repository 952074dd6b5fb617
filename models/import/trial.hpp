// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Trial runs: what a model's file does not tell of its outputs, its behaviour
/// on sample inputs does.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/backend/backend.hpp"
#include "models/import/samples.hpp"
#include "models/signature.hpp"

namespace millrace {

/// Whether requests can be put together along the signature's batch axis, and
/// sample inputs fit into memory.
/// Errors: bad_request, naming the input.
result<void> check_samples(const signature& s);

/// Loads what is tried, which a trial run may end.
using stage_loader = std::function<result<std::unique_ptr<loaded_stage>>()>;

/// Runs the model on two and three rows of the source; where that has random
/// numbers, of the first range that the model runs with, which is set. Fills in
/// the outputs, with the given names first; the usual extent, the longest tried
/// that it runs with, where inputs have free ones beside the rows; and sets the
/// batch axis to -1 when a row's result depends on its neighbours, which are
/// tried in ranges of numbers unlike its own (with `try_rows`): requests must
/// then not be merged. Returns remarks, a sentence each. Errors: bad_request
/// when the model does not run on such inputs, or has fewer outputs than names;
/// those of loading it.
result<std::vector<std::string>>
learn_outputs(stage_loader load, const std::vector<std::string>& names,
              signature& s, sample_source& source, bool try_rows = true);

} // namespace millrace
