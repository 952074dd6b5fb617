// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/backend/backend.hpp"

/// \file
/// A model file's parts on their way out of the confined process that took it
/// apart: tensors of bytes.
namespace millrace::confined {

result<tensor_list> write_parts(model_parts x);

/// What a process has written, which may be anything.
/// Errors: bad_request, internal, with what was found.
result<model_parts> read_parts(const tensor_list& xs);

} // namespace millrace::confined
