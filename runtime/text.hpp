// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

/// Quotes an untrusted text for printing: single quotes, at most `max`
/// characters, control characters and non-ASCII bytes as \xNN.
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

/// The first bytes of a text, at most `max`; a UTF-8 character is not cut.
inline std::string first_of(std::string_view text, size_t max) {
  auto n = std::min(max, text.size());
  while (n > 0 && n < text.size() && (text[n] & 0xc0) == 0x80)
    --n;
  return std::string{text.substr(0, n)};
}

/// Size in bytes of the UTF-8 character at the start of a non-empty text; 0
/// when the bytes are invalid (RFC 3629, section 4).
inline size_t character_at(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  auto a = at(0);
  size_t n = a < 0x80                ? 1
             : a >= 0xc2 && a < 0xe0 ? 2
             : a >= 0xe0 && a < 0xf0 ? 3
             : a >= 0xf0 && a < 0xf5 ? 4
                                     : 0;
  if (n > text.size())
    return 0;
  for (size_t i = 1; i < n; ++i)
    if ((at(i) & 0xc0) != 0x80)
      return 0;
  auto overlong = (a == 0xe0 && at(1) < 0xa0) || (a == 0xf0 && at(1) < 0x90);
  auto beyond = (a == 0xed && at(1) >= 0xa0) || (a == 0xf4 && at(1) >= 0x90);
  return overlong || beyond ? 0 : n;
}

/// "1 node", "2 nodes".
inline std::string counted(size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// Makes an untrusted text safe to print on a terminal. Control characters
/// other than newlines, and invalid UTF-8 bytes, become '?'.
inline std::string printable(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    auto n = character_at(text);
    auto control = n == 1 ? (text[0] < ' ' && text[0] != '\n') || text[0] == 127
                   : n == 2 ? text[0] == '\xc2' && text[1] < '\xa0'
                            : n == 0;
    n = std::max<size_t>(n, 1);
    out += control ? std::string_view{"?"} : text.substr(0, n);
    text.remove_prefix(n);
  }
  return out;
}

/// Joins the elements of a range as "a, b, c"; f converts an element to a
/// string.
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

/// Splits a text at each separator; the result has at least one part.
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

/// Parses a text that is exactly one number.
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
