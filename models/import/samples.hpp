// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/batching.hpp"
#include "models/bundle.hpp"
#include "runtime/random.hpp"

namespace millrace {

/// Upper limit of the bytes of one input.
inline constexpr size_t max_sample_bytes = size_t{1} << 30;

/// The range of the numbers of a trial run. By default, integers are valid as
/// indices.
struct sample_range {
  double low = -1, high = 1;
  uint64_t least = 0, most = 1; ///< of integers
  bool operator==(const sample_range&) const = default;
};

/// Inputs for trial runs: repeated rows of a given sample, or random numbers of
/// a range.
struct sample_source {
  std::vector<tensor_list> rows{}; ///< empty: random numbers
  sample_range range{};

  /// Inputs of `n` rows; random inputs have the usual extents. Without a batch
  /// axis the whole sample is used.
  /// Errors: too_large for an input of more than max_sample_bytes.
  result<tensor_list> inputs(const signature& s, random_stream& random,
                             int64_t n) const;
};

/// A source of the rows of these inputs, all with the same number of rows.
/// Errors: as scatter.
result<sample_source> rows_of(tensor_list inputs, const signature& s);

/// A source of the rows in a .npz file with an array for each input, by name.
/// Sets the usual extent of the signature.
/// Errors: bad_request for an input that is missing or does not match the
/// signature, naming it; as read_npz.
result<sample_source> read_sample(const std::string& path, signature& s);

/// Inputs, and a model's outputs for them.
struct sample_run {
  tensor_list inputs, outputs;
};

/// Serialises samples for a bundle.
result<std::string> write_samples(const signature& s,
                                  const sample_run& samples);

/// Reads a safetensors file with input/NAME for each input, and output/0 and
/// on: the outputs of the model at its origin.
/// Errors: bad_request for a file that does not match the signature; as
/// read_safetensors.
result<sample_run> read_expected(const std::string& path, const signature& s);

/// A bundle's samples; nothing if it has none.
/// Errors: as open_samples; bad_config when they do not match its signature.
result<std::optional<sample_run>> read_samples(const bundle& opened);

/// Whether all numbers are equal up to rounding, which may differ with the
/// number of rows, between processors, and between implementations.
bool are_close(const tensor& a, const tensor& b);
bool are_close(const tensor_list& a, const tensor_list& b);

} // namespace millrace
