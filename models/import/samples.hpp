// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/batching.hpp"
#include "models/bundle.hpp"
#include "runtime/random.hpp"

namespace millrace {

/// Of one input.
inline constexpr size_t max_sample_bytes = size_t{1} << 30;

/// Content for a trial run: numbers between -1 and 1, for integers 0 and 1, so
/// that they are valid as indices. So many rows, of usual extents.
/// Errors: too_large for an input of more than that.
result<tensor_list> sample_inputs(const signature& s, random_stream& random,
                                  int64_t rows);

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
