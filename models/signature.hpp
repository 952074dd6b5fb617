// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/tensor.hpp"
#include "runtime/fields.hpp"

namespace millrace {

/// One input or output of a model. -1 in extents: any.
struct tensor_spec {
  std::string name;
  dtype type = dtype::f32;
  std::vector<int64_t> extents;
  MILLRACE_FIELDS(tensor_spec, name, type, extents)
};

/// The inputs and outputs of a model. Requests with inputs that agree in all
/// but the batch axis may share a batch. A batch_axis of -1: requests are never
/// merged.
struct signature {
  std::vector<tensor_spec> inputs;
  std::vector<tensor_spec> outputs;
  int batch_axis = 0;
  /// For free extents of the inputs, but the batch's, without a given length.
  int64_t usual_extent = 1;
  MILLRACE_FIELDS(signature, inputs, outputs, batch_axis, usual_extent)
};

/// Upper limit of a model's inputs, and of its outputs.
inline constexpr size_t most_tensors = 256;

/// "x:F32[-1, 64]".
std::string to_string(const tensor_spec& spec);

/// Checks a bundle's signature before any other code uses it: 1 to 256 inputs
/// and outputs, extents that a shape can have, a batch axis that each input
/// has, and rows of at most 1 GiB at the usual extent.
/// Errors: bad_config, naming the entry.
result<void> check_signature(const signature& declared);

/// Parses "NAME:DTYPE:EXTENT,EXTENT,..." (an extent of -1 or ?: any), the form
/// of `millrace model import --input`.
/// Errors: bad_request, naming the part.
result<tensor_spec> parse_tensor_spec(std::string_view text);

/// Checks a request's inputs before they can reach a backend. Returns the rows
/// along the batch axis (1 where nothing is merged).
/// Errors: bad_request naming the input, with the expected and the found value,
/// also when inputs differ in their rows or have none.
result<size_t> check_inputs(const signature& s, std::span<const tensor> xs);

/// Checks the outputs of a pass against the signature: their number, types and
/// ranks. Extents are not checked: they may depend on values.
/// Errors: internal, naming the output, with the found and the expected value.
result<void> check_outputs(const signature& s, std::span<const tensor> xs);

/// The concrete shape of a tensor_spec: `rows` for the batch extent, and the
/// usual extent for all other free ones.
shape with_rows(const signature& s, const tensor_spec& spec, int64_t rows);

} // namespace millrace
