// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <torch/script.h>

namespace millrace {

/// Operators by which a model's answers depend on more than the rows of one
/// request, each as "aten::max at model.py:12".
struct graph_findings {
  /// The operator makes numbers, extents or branches of a whole batch's values,
  /// or combines or moves what lies along the first axis (it ends with
  /// millrace_along_axis_0 then): rows of different requests change each
  /// other's results.
  std::vector<std::string> couples_rows;
  /// Writes an attribute or a buffer: a request changes later results.
  std::vector<std::string> keeps_state;
  /// Keys of the dictionary of tensors that forward returns, where it has them
  /// in its code.
  std::vector<std::string> outputs;
  bool writes_in_place = false; ///< among these, to what an attribute holds
};

/// What forward and all that it calls does. Values are followed from forward's
/// inputs through operators; extents are taken to be independent of values.
graph_findings examine_graph(const torch::jit::Module& m);

} // namespace millrace
