// SPDX-License-Identifier: Apache-2.0
#include "millrace/event_json.hpp"

#include <optional>

namespace millrace {

namespace {

/// Removes a value from the beginning of a text: up to the next blank, or a
/// quoted value. In quotes a backslash escapes a quote, a backslash and 'n', as
/// written by log_event(). Empty if the closing quote is missing.
std::optional<std::string> take_value(std::string_view& from) {
  if (!from.starts_with('"')) {
    auto end = std::min(from.size(), from.find(' '));
    std::string out{from.substr(0, end)};
    from.remove_prefix(end);
    return out;
  }
  std::string out;
  for (size_t i = 1; i < from.size(); ++i)
    if (from[i] == '"') {
      from.remove_prefix(i + 1);
      return out;
    } else if (from[i] == '\\' && i + 1 < from.size()) {
      ++i;
      out += from[i] == 'n' ? '\n' : from[i];
    } else {
      out += from[i];
    }
  return std::nullopt;
}

/// Parses the fields " KEY=VALUE ..."; empty for other text.
std::optional<json> fields_of(std::string_view text) {
  auto out = json::object();
  while (!text.empty()) {
    auto equals = text.find('=');
    if (text.front() != ' ' || equals == std::string_view::npos)
      return std::nullopt;
    std::string key{text.substr(1, equals - 1)};
    text.remove_prefix(equals + 1);
    auto value = take_value(text);
    if (key.empty() || key.find(' ') != std::string::npos || !value)
      return std::nullopt;
    out[key] = *value;
  }
  return out;
}

} // namespace

json event_json(const kept_event& event) {
  json out{{"when", event.when},
           {"level", std::string{to_string(event.level)}}};
  std::string_view text = event.text;
  auto end = std::min(text.size(), text.find(' '));
  auto dot = text.substr(0, end).find('.');
  auto fields = fields_of(text.substr(end));
  if (dot == std::string_view::npos || !fields) {
    out["text"] = event.text;
    return out;
  }
  out["component"] = std::string{text.substr(0, dot)};
  out["event"] = std::string{text.substr(dot + 1, end - dot - 1)};
  out["fields"] = std::move(*fields);
  return out;
}

} // namespace millrace
