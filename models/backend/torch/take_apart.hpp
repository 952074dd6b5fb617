// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "models/backend/abi.h"

namespace millrace {

/// millrace_backend::take_apart, by TorchScript.
int take_apart(const void* file, uint64_t bytes, int trusted,
               const millrace_split* split, const millrace_import_sink* sink,
               millrace_error* failed);

} // namespace millrace
