// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "models/tensor.hpp"

namespace millrace {

/// Reads NumPy's .npy format, versions 1 to 3 (numpy.lib.format), in memory.
/// Little-endian numbers in C order only.
/// Errors: bad_request, with the found value; object arrays (pickles) are
/// refused.
result<tensor> read_npy(const shared_bytes& file);

/// The bytes of a version 1 .npy file. BF16 has no NumPy type: bad_request.
result<std::string> write_npy(const tensor& values);

} // namespace millrace
