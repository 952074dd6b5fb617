// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <random>
#include <string_view>

namespace millrace {

/// A stream of random numbers that the same seed repeats on every machine. Each
/// actor forks its own by name, so that what one draws never shifts another's.
class random_stream {
public:
  explicit random_stream(uint64_t seed) : seed_(seed), engine_(seed) {}

  /// An independent stream, the same for the same seed and name.
  random_stream fork(std::string_view name) const;

  uint64_t next() { return engine_(); }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Exponential of mean 1.
  double exponential();

  /// Normal of mean 0 and variance 1.
  double normal();

  /// Gamma of that shape and scale 1: its mean is the shape, its coefficient of
  /// variation one over the shape's root (Marsaglia and Tsang, 2000).
  double gamma(double shape);

  /// Uniform in [0, n); n > 0.
  uint64_t below(uint64_t n);

private:
  uint64_t seed_;
  std::mt19937_64 engine_;
};

/// 64 bits that nobody can foresee, from the kernel. For seeds, incarnations
/// of nodes without a data directory, and nonces; never inside an actor.
uint64_t entropy();

} // namespace millrace
