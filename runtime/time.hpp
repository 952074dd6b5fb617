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

/// A point on the monotonic clock of one process. What crosses a wire is the
/// time left until it, never the point itself. Only adapters may read a clock;
/// actors take it from their actor clock, decisions as a parameter.
using timestamp = std::chrono::steady_clock::time_point;

/// What the host's clock says, for adapters, tools and tests.
inline timestamp steady_now() {
  return std::chrono::steady_clock::now();
}

/// No point in time that will be reached.
inline constexpr timestamp far_future = timestamp::max();

/// The instant after which an answer is worthless. Travels as time left.
struct deadline {
  timestamp at = far_future;
  friend bool operator==(deadline, deadline) = default;
};

constexpr double to_seconds(nanoseconds x) {
  return std::chrono::duration<double>(x).count();
}

constexpr microseconds to_us(nanoseconds x) {
  return std::chrono::duration_cast<microseconds>(x);
}

} // namespace millrace
