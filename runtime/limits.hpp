// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <type_traits>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// Types to which the limits of a note apply.
template <class T>
concept limited =
  std::is_arithmetic_v<T> || std::is_same_v<T, microseconds> || std::is_same_v<
    T, byte_count> || std::is_same_v<T, bandwidth>;

/// The value in seconds, bytes, or bytes per second.
template <limited T>
double plain_number(const T& value) {
  if constexpr (std::is_same_v<T, microseconds>)
    return to_seconds(value);
  else if constexpr (std::is_same_v<T, byte_count>)
    return static_cast<double>(value.value);
  else if constexpr (std::is_same_v<T, bandwidth>)
    return value.bytes_per_second;
  else
    return static_cast<double>(value);
}

/// A number with its unit.
template <limited T>
std::string number_text(const T& value) {
  if constexpr (std::is_same_v<T, microseconds>)
    return format_duration(value);
  else if constexpr (std::is_same_v<T, byte_count>)
    return format_bytes(value.value);
  else if constexpr (std::is_same_v<T, bandwidth>)
    return format_bandwidth(value);
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(value);
  else
    return format_number(value);
}

template <limited T>
bool within(const T& value, const note& limits) {
  auto y = plain_number(value);
  return y >= limits.least && y <= limits.most;
}

/// "between 1 and 4096", "at least 1 ms"; empty without limits.
template <limited T>
std::string limits_text(const note& limits) {
  constexpr auto none = std::numeric_limits<double>::infinity();
  auto text = [](double x) {
    if constexpr (std::is_same_v<T, microseconds>)
      return number_text(microseconds{static_cast<int64_t>(x * 1e6)});
    else if constexpr (std::is_same_v<T, byte_count>)
      return number_text(byte_count{static_cast<uint64_t>(x)});
    else if constexpr (std::is_same_v<T, bandwidth>)
      return number_text(bandwidth{x});
    else
      return number_text(x);
  };
  if (limits.least > -none && limits.most < none)
    return "between " + text(limits.least) + " and " + text(limits.most);
  if (limits.least > -none)
    return "at least " + text(limits.least);
  return limits.most < none ? "at most " + text(limits.most) : std::string{};
}

/// Checks each option of a record against its limits.
/// Errors: bad_request, with the first option out of its limits.
template <annotated T>
result<void> check_limits(const T& record, const std::string& path = {}) {
  result<void> out;
  size_t i = 0;
  for_each_field(record, [&]<class M>(std::string_view name, const M& member) {
    auto n = T::notes()[i++];
    auto at = path + (path.empty() ? "" : ".") + std::string{name};
    if (!out)
      return;
    if constexpr (annotated<M>)
      out = check_limits(member, at);
    else if constexpr (limited<M>)
      if (!within(member, n))
        out = error{ec::bad_request,
                    at + ": expected " + limits_text<M>(n) + ", found "
                      + number_text(member),
                    {}};
  });
  return out;
}

} // namespace millrace
