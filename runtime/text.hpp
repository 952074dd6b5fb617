// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// The text in single quotes, cut to max characters, control characters and
/// non-ASCII bytes as \xNN: safe to print wherever it came from.
inline std::string shown(std::string_view text, size_t max = 40) {
  constexpr char hex[] = "0123456789abcdef";
  std::string out = "'";
  for (auto c : text.substr(0, max)) {
    auto u = static_cast<unsigned char>(c);
    if (u < 0x20 || u >= 0x7f || c == '\\') {
      out += {'\\', 'x', hex[u >> 4], hex[u & 15]};
    } else {
      out += c;
    }
  }
  out += text.size() > max ? "...'" : "'";
  return out;
}

/// "a, b, c" out of any range whose elements become strings by f.
template <class Range, class F>
std::string joined(const Range& xs, std::string_view separator, F f) {
  std::string out;
  for (auto& x : xs) {
    if (!out.empty())
      out += separator;
    out += f(x);
  }
  return out;
}

/// The parts of a text between single separators; never empty.
inline std::vector<std::string_view> split(std::string_view text,
                                           char separator) {
  std::vector<std::string_view> out;
  for (;;) {
    auto at = text.find(separator);
    out.push_back(text.substr(0, at));
    if (at == std::string_view::npos)
      return out;
    text.remove_prefix(at + 1);
  }
}

/// The number that a text is, from its first character to its last.
template <class T>
std::optional<T> number_in(std::string_view text) {
  T out{};
  auto* end = text.data() + text.size();
  auto [rest, err] = std::from_chars(text.data(), end, out);
  if (err != std::errc{} || rest != end)
    return std::nullopt;
  return out;
}

} // namespace millrace
