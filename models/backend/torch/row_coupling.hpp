// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>

namespace millrace {

/// Operators that make a model's answers depend on more than the rows of one
/// request, each as "aten::max at model.py:12".
struct graph_findings {
  /// The operator makes numbers, extents or branches of a whole batch's values,
  /// or combines or moves elements along the first axis (its text then ends
  /// with millrace_along_axis_0). Rows of different requests change each
  /// other's results.
  std::vector<std::string> couples_rows;
  /// Writes an attribute or a buffer: a request changes later results.
  std::vector<std::string> keeps_state;
  /// Keys of the dictionary of tensors that forward returns, if they are
  /// constants of its code.
  std::vector<std::string> outputs;
  /// Some of keeps_state write to a tensor in an attribute.
  bool writes_in_place = false;
};

/// Examines forward and all functions that it calls. Values are followed from
/// forward's inputs through operators; extents are assumed independent of
/// values.
graph_findings examine_graph(const torch::jit::Module& m);

} // namespace millrace
