// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// A count of bytes.
struct byte_count {
  uint64_t value = 0;
  friend auto operator<=>(byte_count, byte_count) = default;
};

/// Throughput of a link or a disk.
struct bandwidth {
  double bytes_per_second = 0;
  friend auto operator<=>(bandwidth, bandwidth) = default;
};

/// "1.5 MiB": binary multiples, three digits.
std::string format_bytes(uint64_t n);

/// "230 us", "12.5 ms", "3.20 s": the unit fits the size.
std::string format_duration(nanoseconds d);

/// format_duration for a number of seconds; "over 200 years" beyond its range.
std::string format_seconds(double seconds);

/// "10 Gbit/s": decimal multiples of bits, three digits.
std::string format_bandwidth(bandwidth rate);

/// "0.98", "4096": the shortest digits that read back as the same number.
std::string format_number(double number);

/// Reads "20ms", "1.5s", "100us", "2min", "1h".
/// Errors: bad_request for a missing number, an unknown unit, a negative value,
/// or a value over ten years.
result<microseconds> parse_duration(std::string_view text);

/// Reads "64MiB", "1.5GB", "4096": decimal and binary multiples of bytes.
/// Errors: bad_request as for durations.
result<byte_count> parse_bytes(std::string_view text);

/// Reads "10Gbit/s", "1.25GB/s", "100MiB/s". Errors: as for durations.
result<bandwidth> parse_bandwidth(std::string_view text);

} // namespace millrace
