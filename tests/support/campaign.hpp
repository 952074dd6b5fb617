// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <vector>

#include "runtime/random.hpp"

namespace millrace::test {

/// Factor on the usual number of tries of a test. tools/campaign sets it.
inline int times() {
  auto* text = std::getenv("MILLRACE_TIMES");
  return text == nullptr ? 1 : std::atoi(text);
}

/// Seed of a test, or the first of its seeds. tools/campaign sets another one
/// in each run.
inline uint64_t first_seed() {
  auto* text = std::getenv("MILLRACE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

inline random_stream chance() {
  return random_stream{first_seed()};
}

/// n seeds, or n times the factor of the campaign.
inline std::vector<uint64_t> seeds(uint64_t n) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < n * static_cast<uint64_t>(times()); ++i)
    out.push_back(first_seed() + i);
  return out;
}

} // namespace millrace::test
