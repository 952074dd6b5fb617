// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Trial runs: properties of a model's outputs that its file does not state are
/// learned by running it on sample inputs.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/backend/backend.hpp"
#include "models/import/samples.hpp"
#include "models/signature.hpp"

namespace millrace {

/// Checks that requests can be joined along the signature's batch axis, and
/// that sample inputs fit into memory.
/// Errors: bad_request, naming the input.
result<void> check_samples(const signature& s);

/// Loads the model under test; called again if a trial run ended its process.
using stage_loader = std::function<result<std::unique_ptr<loaded_stage>>()>;

/// Learns a model's outputs by running it on two and three rows of the source.
/// Sets in `s` and `source`:
/// - for random numbers, the first range that the model accepts;
/// - the outputs, with the given names first;
/// - the usual extent, if inputs have free axes besides the rows: the longest
///   one tried that the model accepts;
/// - the batch axis to -1 when a row's result depends on its neighbours, which
///   are tried with other ranges of numbers (with `try_rows`): such requests
///   must not be merged.
/// Returns remarks, a sentence each.
/// Errors: bad_request when the model does not run on such inputs, or has fewer
/// outputs than names; those of loading it.
result<std::vector<std::string>>
learn_outputs(stage_loader load, const std::vector<std::string>& names,
              signature& s, sample_source& source, bool try_rows = true);

} // namespace millrace
