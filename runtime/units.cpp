// SPDX-License-Identifier: Apache-2.0
#include "runtime/units.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

namespace millrace {

namespace {

struct unit {
  std::string_view name;
  double factor;
};

constexpr std::array time_units{
  unit{"us", 1},    unit{"ms", 1e3},  unit{"s", 1e6},
  unit{"min", 6e7}, unit{"h", 3.6e9},
};

constexpr std::array byte_units{
  unit{"", 1},
  unit{"B", 1},
  unit{"kB", 1e3},
  unit{"MB", 1e6},
  unit{"GB", 1e9},
  unit{"TB", 1e12},
  unit{"KiB", 1024.},
  unit{"MiB", 1048576.},
  unit{"GiB", 1073741824.},
  unit{"TiB", 1099511627776.},
};

constexpr std::array bandwidth_units{
  unit{"bit/s", 0.125},   unit{"kbit/s", 125.},    unit{"Mbit/s", 1.25e5},
  unit{"Gbit/s", 1.25e8}, unit{"Tbit/s", 1.25e11}, unit{"B/s", 1},
  unit{"kB/s", 1e3},      unit{"MB/s", 1e6},       unit{"GB/s", 1e9},
  unit{"KiB/s", 1024.},   unit{"MiB/s", 1048576.}, unit{"GiB/s", 1073741824.},
};

result<double> parse_quantity(std::string_view text,
                              std::span<const unit> units,
                              std::string_view example, double limit) {
  auto refuse = [&](std::string_view why) {
    return error{ec::bad_request, "'" + std::string{text} + "' "
                                    + std::string{why} + " (expected like "
                                    + std::string{example} + ")"};
  };
  double number = 0;
  auto [rest, err] =
    std::from_chars(text.data(), text.data() + text.size(), number);
  if (err != std::errc{} || !std::isfinite(number))
    return refuse("does not begin with a number");
  if (number < 0)
    return refuse("is negative");
  auto suffix = text.substr(static_cast<size_t>(rest - text.data()));
  while (!suffix.empty() && suffix.front() == ' ')
    suffix.remove_prefix(1);
  for (auto& x : units) {
    if (x.name != suffix)
      continue;
    auto value = number * x.factor;
    return value <= limit ? result<double>{value} : refuse("is too large");
  }
  if (number == 0 && suffix.empty())
    return 0.0;
  return refuse("has no known unit");
}

} // namespace

std::string format_number(double number) {
  std::array<char, 32> text;
  auto whole = std::abs(number) < 1e15 && number == std::trunc(number);
  auto form = whole ? std::chars_format::fixed : std::chars_format::general;
  auto [end, err] =
    std::to_chars(text.data(), text.data() + text.size(), number, form);
  return {text.data(), end};
}

std::string format_bytes(uint64_t n) {
  constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB"};
  auto x = static_cast<double>(n);
  size_t i = 0;
  while (x >= 1024 && i + 1 < names.size()) {
    x /= 1024;
    ++i;
  }
  char buf[32];
  auto whole = i == 0 || x >= 999.5;
  std::snprintf(buf, sizeof buf, whole ? "%.0f %s" : "%.3g %s", x, names[i]);
  return buf;
}

std::string format_duration(nanoseconds d) {
  auto us = static_cast<double>(d.count()) / 1e3;
  char buf[32];
  if (std::abs(us) < 999.5)
    std::snprintf(buf, sizeof buf, "%.3g us", us);
  else if (std::abs(us) < 999.5e3)
    std::snprintf(buf, sizeof buf, "%.3g ms", us / 1e3);
  else if (std::abs(us) < 6e8)
    std::snprintf(buf, sizeof buf, "%.3g s", us / 1e6);
  else if (std::abs(us) < 7.2e9)
    std::snprintf(buf, sizeof buf, "%.0f min", us / 6e7);
  else
    std::snprintf(buf, sizeof buf, "%.4g h", us / 3.6e9);
  return buf;
}

std::string format_seconds(double seconds) {
  constexpr double most = 9e9; // nanoseconds overflow after 292 years
  return seconds < most
           ? format_duration(nanoseconds{std::llround(1e9 * seconds)})
           : "over 200 years";
}

std::string format_bandwidth(bandwidth rate) {
  constexpr std::array names{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
  auto bits = 8 * rate.bytes_per_second;
  size_t i = 0;
  while (bits >= 1000 && i + 1 < names.size()) {
    bits /= 1000;
    ++i;
  }
  char buf[32];
  std::snprintf(buf, sizeof buf, "%.3g %s", bits, names[i]);
  return buf;
}

result<microseconds> parse_duration(std::string_view text) {
  auto x = parse_quantity(text, time_units, "20ms", 3.2e14);
  if (!x)
    return x.failure();
  return microseconds{std::llround(*x)};
}

result<bandwidth> parse_bandwidth(std::string_view text) {
  auto x = parse_quantity(text, bandwidth_units, "10Gbit/s", 1e15);
  if (!x)
    return x.failure();
  return bandwidth{*x};
}

result<byte_count> parse_bytes(std::string_view text) {
  auto x = parse_quantity(text, byte_units, "64MiB", 1e18);
  if (!x)
    return x.failure();
  return byte_count{static_cast<uint64_t>(*x)};
}

} // namespace millrace
