// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

namespace millrace {

/// A stream of random numbers; the same seed gives the same stream on every
/// machine. Each actor forks its own stream by name, so that the draws of one
/// actor do not shift those of another.
class random_stream {
public:
  explicit random_stream(uint64_t seed) : seed_(seed), engine_(seed) {}

  /// Returns an independent stream, determined by seed and name.
  random_stream fork(std::string_view name) const;

  uint64_t next() { return engine_(); }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Exponential with mean 1.
  double exponential();

  /// Normal with mean 0 and variance 1.
  double normal();

  /// Gamma with the given shape and scale 1. The mean is `shape`, the
  /// coefficient of variation 1/sqrt(shape) (Marsaglia and Tsang, 2000).
  double gamma(double shape);

  /// Uniform in [0, n); n > 0.
  uint64_t below(uint64_t n);

private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

/// 64 unpredictable bits from the kernel. For seeds, nonces, and incarnations
/// of nodes without a data directory; never for use in actors.
uint64_t entropy();

} // namespace millrace
