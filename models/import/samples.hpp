// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/batching.hpp"
#include "models/bundle.hpp"
#include "runtime/random.hpp"

namespace millrace {

/// Of one input.
inline constexpr size_t max_sample_bytes = size_t{1} << 30;

/// Numbers of a trial run. The usual integers are valid as indices.
struct sample_range {
  double low = -1, high = 1;
  uint64_t least = 0, most = 1; ///< of integers
  bool operator==(const sample_range&) const = default;
};

/// Inputs for trial runs: rows of a sample that was given, again and again, or
/// random numbers of a range.
struct sample_source {
  std::vector<tensor_list> rows{}; ///< empty: random numbers
  sample_range range{};

  /// Inputs of `n` rows; random ones have the usual extents. Without a batch
  /// axis the whole sample.
  /// Errors: too_large for an input of more than max_sample_bytes.
  result<tensor_list> inputs(const signature& s, random_stream& random,
                             int64_t n) const;
};

/// A source of the rows of these inputs, which agree in their number.
/// Errors: scatter's.
result<sample_source> rows_of(tensor_list inputs, const signature& s);

/// A source of the rows in a .npz file with each input by its name. Sets the
/// usual extent of the signature.
/// Errors: bad_request for an input that is missing or is not of the
/// signature, naming it; read_npz's.
result<sample_source> read_sample(const std::string& path, signature& s);

/// What a model made of which inputs.
struct sample_run {
  tensor_list inputs, outputs;
};

/// Into the form of a bundle's samples.
result<std::string> write_samples(const signature& s, const sample_run& x);

/// Of a safetensors file with input/NAME for each input, and output/0 and on:
/// what the model made of them where it comes from.
/// Errors: bad_request for one that is not of the signature, and
/// read_safetensors's.
result<sample_run> read_expected(const std::string& path, const signature& s);

/// A bundle's samples; nothing where it has none.
/// Errors: open_samples's; bad_config when they are not of its signature.
result<std::optional<sample_run>> read_samples(const bundle& x);

/// Whether all numbers are the same but for rounding, which may differ with the
/// number of rows, between processors, and with what computes them.
bool are_close(const tensor& a, const tensor& b);
bool are_close(const tensor_list& a, const tensor_list& b);

} // namespace millrace
