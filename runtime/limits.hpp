// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <type_traits>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// What a note's limits can be said of.
template <class T>
concept limited =
  std::is_arithmetic_v<T> || std::is_same_v<T, microseconds> || std::is_same_v<
    T, byte_count> || std::is_same_v<T, bandwidth>;

/// In seconds, bytes, or bytes per second.
template <limited T>
double plain_number(const T& x) {
  if constexpr (std::is_same_v<T, microseconds>)
    return to_seconds(x);
  else if constexpr (std::is_same_v<T, byte_count>)
    return static_cast<double>(x.value);
  else if constexpr (std::is_same_v<T, bandwidth>)
    return x.bytes_per_second;
  else
    return static_cast<double>(x);
}

/// A number with its unit.
template <limited T>
std::string number_text(const T& x) {
  if constexpr (std::is_same_v<T, microseconds>)
    return format_duration(x);
  else if constexpr (std::is_same_v<T, byte_count>)
    return format_bytes(x.value);
  else if constexpr (std::is_same_v<T, bandwidth>)
    return format_bandwidth(x);
  else if constexpr (std::is_integral_v<T>)
    return std::to_string(x);
  else
    return format_number(x);
}

template <limited T>
bool within(const T& x, const note& limits) {
  auto y = plain_number(x);
  return y >= limits.least && y <= limits.most;
}

/// "between 1 and 4096", "at least 1 ms"; empty where there are no limits.
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

/// Holds every option of a record against its limits.
/// Errors: bad_request, naming the first that is beyond them.
template <annotated T>
result<void> check_limits(const T& x, const std::string& path = {}) {
  result<void> out;
  size_t i = 0;
  for_each_field(x, [&]<class M>(std::string_view name, const M& member) {
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
