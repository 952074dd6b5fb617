// SPDX-License-Identifier: Apache-2.0
#include "shell/words.hpp"

#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr size_t line_most = 4096;
constexpr size_t words_most = 64;

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

} // namespace

result<std::vector<std::string>> words_of(std::string_view line) {
  if (line.size() > line_most)
    return error{ec::bad_request,
                 "the line has " + std::to_string(line.size())
                   + " bytes; expected at most " + std::to_string(line_most),
                 {}};
  std::vector<std::string> out;
  bool inside = false; // within a word
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    auto c = line[i];
    if (quote == 0 && is_blank(c)) {
      inside = false;
      continue;
    }
    if (quote == 0 && !inside && c == '#')
      break;
    if (!inside) {
      out.emplace_back();
      inside = true;
    }
    if (c == quote)
      quote = 0;
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == '\\' && quote != '\'' && i + 1 < line.size())
      out.back() += line[++i];
    else
      out.back() += c;
  }
  if (quote != 0)
    return error{
      ec::bad_request, std::string{"a "} + quote + " that is not closed", {}};
  if (out.size() > words_most)
    return error{ec::bad_request,
                 std::to_string(out.size()) + " words; expected at most "
                   + std::to_string(words_most),
                 {}};
  return out;
}

result<microseconds> read_seconds(const std::string& word) {
  auto bare = number_in<double>(word).has_value();
  return parse_duration(bare ? word + "s" : word);
}

} // namespace millrace
