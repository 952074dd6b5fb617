// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/fields.hpp"

namespace millrace {

/// A violation found by an exploration.
struct broken_promise {
  std::string invariant; ///< "I1"
  std::string text;
  std::optional<uint64_t> seed{};   ///< empty: shown by all seeds together
  std::optional<uint64_t> drawn{};  ///< number of the seed's faults
  std::optional<uint64_t> enough{}; ///< number of these, from the first, that
                                    ///< show it
  MILLRACE_FIELDS(broken_promise, invariant, text, seed, drawn, enough)
};

/// "seed 7, first 2 of 5 faults: I1 at 3.2 s: request 12 has two answers".
std::string to_string(const broken_promise& broken);

/// Violations in paragraphs, one for each invariant: its meaning, the number of
/// violations, one violation of each of the first five seeds, the number of
/// further seeds, and the command line that replays the first seed.
std::string
violations_text(const std::vector<broken_promise>& all, size_t width,
                const std::function<std::string(const broken_promise&)>& call);

} // namespace millrace
