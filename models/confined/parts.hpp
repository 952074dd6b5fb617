// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/backend/backend.hpp"

/// \file
/// Serialises the parts of a model file, to pass them out of the confined
/// process that took the file apart: tensors of bytes.
namespace millrace::confined {

result<tensor_list> write_parts(model_parts parts);

/// Parses the output of a process, which may be invalid.
/// Errors: bad_request, internal, with the found value.
result<model_parts> read_parts(const tensor_list& xs);

} // namespace millrace::confined
