// SPDX-License-Identifier: Apache-2.0
#include "runtime/random.hpp"

#include <cmath>

#include <sys/random.h>

#include "runtime/assert.hpp"

namespace millrace {

namespace {

/// Vigna's SplitMix64 finaliser: maps close seeds to distant values.
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

double random_stream::exponential() {
  return -std::log1p(-uniform());
}

double random_stream::normal() {
  for (;;) { // Marsaglia's polar method; the second value is discarded
    auto x = 2 * uniform() - 1;
    auto y = 2 * uniform() - 1;
    auto square = x * x + y * y;
    if (square > 0 && square < 1)
      return x * std::sqrt(-2 * std::log(square) / square);
  }
}

double random_stream::gamma(double shape) {
  if (shape < 1)
    return gamma(shape + 1) * std::pow(1 - uniform(), 1 / shape);
  auto d = shape - 1.0 / 3;
  auto c = 1 / std::sqrt(9 * d);
  for (;;) {
    auto x = normal();
    auto v = 1 + c * x;
    if (v <= 0)
      continue;
    v = v * v * v;
    if (std::log(1 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v))
      return d * v;
  }
}

uint64_t random_stream::below(uint64_t n) {
  MILLRACE_ASSERT(n > 0);
  auto biased = -n % n; // 2^64 mod n: so many low values would bias the result
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
