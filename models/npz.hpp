// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/safetensors.hpp"

namespace millrace {

/// Reads the named arrays of a file by numpy.savez or numpy.savez_compressed,
/// at most 1 GiB.
/// Errors: bad_request for another kind of file, or an array that read_npy
/// refuses; too_large.
result<std::vector<named_tensor>> read_npz(const std::string& path);

/// Writes a file for numpy.load; replaces an existing file.
/// Errors: as write_npy, naming the array; unavailable when the file cannot be
/// written.
result<void> write_npz(const std::string& path,
                       const std::vector<named_tensor>& xs);

} // namespace millrace
