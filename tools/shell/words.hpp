// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Splits a line into words, as a shell does: at blanks, except within '...'
/// and "..."; a backslash takes the next character literally; # at the
/// beginning of a word starts a comment. Errors: bad_request without a closing
/// quote, and over 4096 bytes or 64 words.
result<std::vector<std::string>> words_of(std::string_view line);

/// Parses a time; seconds without a unit. Errors: bad_request.
result<microseconds> read_seconds(const std::string& word);

} // namespace millrace
