// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/batching.hpp"
#include "models/safetensors.hpp"

namespace millrace {

/// Tensors of .npy files, each said as FILE or NAME=FILE.
/// Errors: as of map_file and read_npy, with the file.
result<std::vector<named_tensor>>
read_arrays(const std::vector<std::string>& said);

/// Rows [first, first + rows) of a tensor along its first axis, sharing its
/// bytes; with 0 rows all from the first on. One without axes is all there is.
/// Errors: bad_request when there are not so many.
result<tensor> choose_rows(const tensor& x, size_t first, size_t rows);

} // namespace millrace
