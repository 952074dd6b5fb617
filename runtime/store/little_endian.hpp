// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

/// Appends a number in little-endian order.
template <class T>
void put_number(std::string& out, T number) {
  for (size_t i = 0; i < sizeof number; ++i)
    out += static_cast<char>(number >> (8 * i));
}

/// Reads the number at an offset, which must be inside the text.
template <class T>
T number_at(std::string_view bytes, size_t at) {
  T out = 0;
  for (size_t i = 0; i < sizeof out; ++i)
    out |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes[at + i]))
                          << (8 * i));
  return out;
}

/// Removes a number from the start of a text; nullopt when the text is too
/// short.
template <class T>
std::optional<T> take_number(std::string_view& bytes) {
  if (bytes.size() < sizeof(T))
    return std::nullopt;
  auto out = number_at<T>(bytes, 0);
  bytes.remove_prefix(sizeof(T));
  return out;
}

} // namespace millrace
