// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "models/bundle_store.hpp"
#include "models/import/layers.hpp"

namespace millrace {

/// What a person says about a model file that is to become a bundle.
struct import_request {
  std::string path; ///< a TorchScript file
  std::string name;
  uint64_t version = 0; ///< 0: one more than the newest
  /// Inputs of forward; empty: inferred where the model allows it.
  std::vector<tensor_spec> inputs;
  std::vector<std::string> output_names;
  int batch_axis = 0; ///< -1: never merge requests
  /// The importer vouches that rows do not change each other's results: neither
  /// graph nor trial runs are asked.
  bool rows_independent = false;
  bool stateful = false; ///< accepts a model that keeps state
  std::string application;
  std::string description;
  std::optional<accuracy_info> accuracy;
  std::string licence;
  std::vector<std::string> labels;
  std::string expected;  ///< a file for read_expected; empty: none
  std::string sample;    ///< a file for read_sample; empty: random numbers
  layer_settings layers; ///< depth 0: it is one
  bool must_cut = false; ///< else one that cannot be cut is one layer
};

struct import_report {
  manifest info;
  std::string directory;
  /// Things the person may want to know, a sentence each.
  std::vector<std::string> remarks;
};

/// Turns a TorchScript file into a bundle: takes the parameters out, runs the
/// model to learn its outputs and, with the operators of its graph, whether
/// rows of a batch are independent, cuts it into layers if that is wished, sees
/// that they compute what it does, and puts the bundle in place. `progress`
/// gets a sentence per step. Errors: bad_request when the inputs have to be
/// given, or do not run, or the model keeps state, or cannot be cut, or
/// computes something else than is expected; the text says what to give.
/// conflict when the version exists.
result<import_report>
import_torchscript(backend& runner, const import_request& x,
                   bundle_store& target,
                   const std::function<void(std::string)>& progress);

} // namespace millrace
