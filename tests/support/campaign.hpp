// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <vector>

#include "runtime/random.hpp"

namespace millrace::test {

/// How many times as much as usual a test is to try: what tools/campaign says.
inline int times() {
  auto* text = std::getenv("MILLRACE_TIMES");
  return text == nullptr ? 1 : std::atoi(text);
}

/// What a test draws from, or the first of the seeds it tries: tools/campaign
/// says another one each time.
inline uint64_t first_seed() {
  auto* text = std::getenv("MILLRACE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

inline random_stream chance() {
  return random_stream{first_seed()};
}

/// So many, or as many times that as a campaign says.
inline std::vector<uint64_t> seeds(uint64_t n) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < n * static_cast<uint64_t>(times()); ++i)
    out.push_back(first_seed() + i);
  return out;
}

} // namespace millrace::test
