// SPDX-License-Identifier: Apache-2.0
#include "runtime/random.hpp"

#include <sys/random.h>

#include "runtime/assert.hpp"

namespace millrace {

namespace {

/// Vigna's SplitMix64 finaliser: spreads close seeds far apart.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

} // namespace

random_stream random_stream::fork(std::string_view name) const {
  uint64_t h = 0xcbf29ce484222325; // FNV-1a
  for (auto c : name)
    h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return random_stream{mix(seed_ ^ mix(h))};
}

uint64_t random_stream::below(uint64_t n) {
  MILLRACE_ASSERT(n > 0);
  auto biased = -n % n; // 2^64 mod n: these many values would come too often
  for (;;)
    if (auto x = next(); x >= biased)
      return x % n;
}

uint64_t entropy() {
  uint64_t x = 0;
  MILLRACE_ASSERT(getrandom(&x, sizeof x, 0) == sizeof x);
  return x;
}

} // namespace millrace
