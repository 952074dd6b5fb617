// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/safetensors.hpp"

namespace millrace {

/// Reads the arrays of a file that numpy.savez or numpy.savez_compressed wrote,
/// by their names, at most 1 GiB.
/// Errors: bad_request for a file that is none, or an array that read_npy
/// refuses; too_large.
result<std::vector<named_tensor>> read_npz(const std::string& path);

/// Writes a file for numpy.load; replaces an existing file.
/// Errors: write_npy's, naming the array; unavailable when it cannot be
/// written.
result<void> write_npz(const std::string& path,
                       const std::vector<named_tensor>& xs);

} // namespace millrace
