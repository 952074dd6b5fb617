// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// Appends a number, its lowest byte first.
template <class T>
void put_number(std::string& out, T x) {
  for (size_t i = 0; i < sizeof x; ++i)
    out += static_cast<char>(x >> (8 * i));
}

/// The number at an offset, which has to be there.
template <class T>
T number_at(std::string_view x, size_t at) {
  T out = 0;
  for (size_t i = 0; i < sizeof out; ++i)
    out |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(x[at + i]))
                          << (8 * i));
  return out;
}

/// Takes a number off the front of a text; none when it is too short.
template <class T>
std::optional<T> take_number(std::string_view& x) {
  if (x.size() < sizeof(T))
    return std::nullopt;
  auto out = number_at<T>(x, 0);
  x.remove_prefix(sizeof(T));
  return out;
}

} // namespace millrace
