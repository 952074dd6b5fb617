// SPDX-License-Identifier: Apache-2.0
#include "runtime/name.hpp"

#include <algorithm>

#include "runtime/text.hpp"

namespace millrace {

namespace {

bool is_lower_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

} // namespace

result<void> check_name(std::string_view kind, std::string_view name) {
  auto refuse = [&](std::string why) {
    return error{ec::bad_request,
                 std::string{kind} + " name " + shown(name, 80) + " " + why};
  };
  if (name.empty())
    return refuse("is empty");
  if (name.size() > 64)
    return refuse("has " + std::to_string(name.size())
                  + " characters, at most 64 are allowed");
  if (!is_lower_or_digit(name.front()))
    return refuse("must begin with a lower-case letter or a digit");
  for (auto c : name)
    if (!is_lower_or_digit(c) && c != '.' && c != '_' && c != '-')
      return refuse("has a character other than a-z, 0-9, '.', '_' and '-'");
  if (name.find("..") != std::string_view::npos)
    return refuse("has '..' in it");
  return {};
}

bool is_plain(std::string_view text) {
  auto is_ascii = [](char c) { return c >= ' ' && c < 127; };
  return std::all_of(text.begin(), text.end(), is_ascii)
         || (text.find('\n') == text.npos && printable(text) == text);
}

result<void> check_plain(std::string_view kind, std::string_view text) {
  if (is_plain(text))
    return {};
  return error{ec::bad_request,
               std::string{kind} + " " + shown(text, 64)
                 + " has control characters or is not UTF-8 (expected one line"
                   " of printable characters)",
               {}};
}

} // namespace millrace
