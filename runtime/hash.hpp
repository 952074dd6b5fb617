// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/bytes.hpp"

namespace millrace {

/// SHA-256 as 64 lower-case hexadecimal digits.
std::string sha256_hex(const_bytes x);

} // namespace millrace
