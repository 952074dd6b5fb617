// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/bytes.hpp"

namespace millrace {

using sha256_digest = std::array<std::byte, 32>;

/// SHA-256 (FIPS 180-4).
sha256_digest sha256(const_bytes content);

/// Formats as 64 lower-case hexadecimal digits.
std::string to_hex(const sha256_digest& digest);
std::string sha256_hex(const_bytes content);

/// Parses the format of to_hex; nullopt for other texts.
std::optional<sha256_digest> sha256_from_hex(std::string_view hex);

} // namespace millrace
