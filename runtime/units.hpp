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

/// What a link or a disk carries.
struct bandwidth {
  double bytes_per_second = 0;
  friend auto operator<=>(bandwidth, bandwidth) = default;
};

/// "1.5 MiB": binary multiples, three digits.
std::string format_bytes(uint64_t n);

/// "230 us", "12.5 ms", "3.20 s": the unit a person would choose.
std::string format_duration(nanoseconds d);

/// The same of a number of seconds; "over 200 years" where it has no end.
std::string format_seconds(double x);

/// "10 Gbit/s": as links are sold, three digits.
std::string format_bandwidth(bandwidth x);

/// "0.98", "4096": the shortest digits that read back as the same number.
std::string format_number(double x);

/// Reads "20ms", "1.5s", "100us", "2min", "1h".
/// Errors: bad_request when there is no number or no known unit, or when it is
/// negative or over ten years.
result<microseconds> parse_duration(std::string_view text);

/// Reads "64MiB", "1.5GB", "4096": decimal and binary multiples of bytes.
/// Errors: bad_request as for durations.
result<byte_count> parse_bytes(std::string_view text);

/// Reads "10Gbit/s", "1.25GB/s", "100MiB/s". Errors: as for durations.
result<bandwidth> parse_bandwidth(std::string_view text);

} // namespace millrace
