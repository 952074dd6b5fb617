// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace millrace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

using namespace std::chrono_literals;

/// A point on the monotonic clock of one process. Messages between processes
/// carry the time left, never a timestamp. Only adapters may read a clock.
/// Actors use their actor clock; decision functions get the time as a
/// parameter.
using timestamp = std::chrono::steady_clock::time_point;

/// The host's clock, for adapters, tools and tests.
inline timestamp steady_now() {
  return std::chrono::steady_clock::now();
}

/// A time that is never reached.
inline constexpr timestamp far_future = timestamp::max();

/// The time after which an answer is useless. Messages carry the time left.
struct deadline {
  timestamp at = far_future;
  friend bool operator==(deadline, deadline) = default;
};

constexpr double to_seconds(nanoseconds interval) {
  return std::chrono::duration<double>(interval).count();
}

constexpr microseconds to_us(nanoseconds interval) {
  return std::chrono::duration_cast<microseconds>(interval);
}

} // namespace millrace
