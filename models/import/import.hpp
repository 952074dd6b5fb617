// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "models/bundle_store.hpp"
#include "models/import/layers.hpp"

namespace millrace {

/// A user's request to import a model file as a bundle.
struct import_request {
  std::string path; ///< a TorchScript file
  std::string name;
  uint64_t version = 0; ///< 0: one more than the newest
  /// Inputs of forward; empty: inferred where the model allows it.
  std::vector<tensor_spec> inputs;
  std::vector<std::string> output_names;
  int batch_axis = 0; ///< -1: never merge requests
  /// The user asserts that rows do not change each other's results: the graph
  /// and trial runs are not consulted.
  bool rows_independent = false;
  bool stateful = false; ///< accepts a model that keeps state
  std::string application;
  std::string description;
  std::optional<accuracy_info> accuracy;
  std::string licence;
  std::vector<std::string> labels;
  std::string expected;  ///< a file for read_expected; empty: none
  std::string sample;    ///< a file for read_sample; empty: random numbers
  layer_settings layers; ///< depth 0: one layer
  /// Fail if it cannot be cut; else it becomes one layer.
  bool must_cut = false;
};

struct import_report {
  manifest info;
  std::string directory;
  /// Notes for the user, a sentence each.
  std::vector<std::string> remarks;
};

/// Turns a TorchScript file into a bundle: takes the parameters out, runs the
/// model to learn its outputs and, with the operators of its graph, whether
/// rows of a batch are independent. On request it cuts the model into layers
/// and checks that they compute the same. Then it stores the bundle. `progress`
/// gets a sentence per step.
/// Errors: bad_request when the inputs have to be given, or do not run, or the
/// model keeps state, cannot be cut, or has other results than expected; the
/// text says what to give. conflict when the version exists.
result<import_report>
import_torchscript(backend& runner, const import_request& request,
                   bundle_store& target,
                   const std::function<void(std::string)>& progress);

} // namespace millrace
