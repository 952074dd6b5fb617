// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/batching.hpp"
#include "models/safetensors.hpp"

namespace millrace {

/// Reads tensors from .npy files. `said`: a list of FILE or NAME=FILE. Errors:
/// as map_file and read_npy, with the file's name.
result<std::vector<named_tensor>>
read_arrays(const std::vector<std::string>& said);

/// Rows [first, first + rows) of a tensor along its first axis, without a copy
/// of the bytes; `rows` 0: all rows from `first` on. A tensor without axes is
/// returned whole. Errors: bad_request when the tensor has too few rows.
result<tensor> choose_rows(const tensor& values, size_t first, size_t rows);

} // namespace millrace
