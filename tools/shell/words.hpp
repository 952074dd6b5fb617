// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Words of a line, as a shell takes them: by blanks, with '...' and "..." kept
/// together, a backslash before a character that shall mean itself, and nothing
/// from a # on that begins a word. Errors: bad_request where a quote does not
/// end, and beyond 4096 bytes or 64 words.
result<std::vector<std::string>> words_of(std::string_view line);

/// A time as a person types it: seconds where no unit is given.
/// Errors: bad_request.
result<microseconds> read_seconds(const std::string& word);

} // namespace millrace
