// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "millrace/verbs.hpp"
#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

using json = nlohmann::ordered_json;

template <class T>
concept time_span = requires(const T& value) {
  value.count();
  value.zero();
};

/// The name of a member in JSON: names of durations end in "_us".
template <class T>
std::string json_name(std::string_view name, const T&) {
  return std::string{name} + (time_span<T> ? "_us" : "");
}

/// A declared record as JSON: durations in microseconds, sizes in bytes,
/// bandwidths in bytes per second.
template <class T>
json to_json(const T& value) {
  if constexpr (declared<T>) {
    auto out = json::object();
    for_each_field(value, [&](std::string_view name, auto& member) {
      out[json_name(name, member)] = to_json(member);
    });
    return out;
  } else if constexpr (named_enum<T>) {
    return std::string{to_string(value)};
  } else if constexpr (time_span<T>) {
    return value.count();
  } else if constexpr (std::is_same_v<T, byte_count>) {
    return value.value;
  } else if constexpr (std::is_same_v<T, bandwidth>) {
    return value.bytes_per_second;
  } else if constexpr (requires {
                         value.has_value();
                         *value;
                       }) {
    return value ? to_json(*value) : json{};
  } else if constexpr (requires { typename T::mapped_type; }) {
    auto out = json::object();
    for (auto& [key, y] : value)
      out[key] = to_json(y);
    return out;
  } else if constexpr (requires {
                         typename T::value_type;
                         value.begin();
                       }
                       && !std::is_same_v<T, std::string>) {
    auto out = json::array();
    for (auto& y : value)
      out.push_back(to_json(y));
    return out;
  } else {
    return value;
  }
}

/// Reads a record that another process of this program printed. Missing members
/// keep their values. Throws json::exception for a value of another type.
template <class T>
void read_json(const json& from, T& to) {
  if constexpr (declared<T>)
    for_each_field(to, [&](std::string_view name, auto& member) {
      if (auto i = from.find(json_name(name, member)); i != from.end())
        read_json(*i, member);
    });
  else if constexpr (requires {
                       to.emplace();
                       to.has_value();
                     }) {
    if (!from.is_null())
      read_json(from, to.emplace());
  } else if constexpr (
    requires { to.emplace_back(); } && !requires { to.c_str(); }) {
    for (auto& x : from)
      read_json(x, to.emplace_back());
  } else {
    from.get_to(to);
  }
}

/// A value as one line of JSON. Unprintable characters in texts, which may come
/// from clients, models or other nodes, are escaped.
std::string json_text(const json& value);

/// A number with this many digits after the point: "12.5".
std::string fixed(double number, int digits);

/// Prints the error as every verb does, and returns its exit status.
int fail(const common_options& common, const error& why);

/// As fail, for errors in a configuration, which have their own exit status.
int refuse(const common_options& common, const error& why);

/// The exit status at the end of a program: `status`, or exit_failed if writing
/// to stdout failed.
int all_written(int status);

/// Prints the error of a wrong command line, and returns exit_wrong_call.
int wrong_call(const common_options& common, const error& why);

/// Counts by name: "ok 12, late 3".
template <class Map>
std::string listed(const Map& counts) {
  return joined(counts, ", ", [](auto& x) {
    return x.first + " " + std::to_string(x.second);
  });
}

/// Accepts a whole decimal number. CLI11 alone would read 010 as 8, and accept
/// -1 and 1e3.
CLI::Validator whole_number(uint64_t min = 0, uint64_t max = UINT64_MAX);

/// Rows of cells; the first row is a heading.
using table = std::vector<std::vector<std::string>>;

/// Rows in aligned columns, as printable text; no cell is cut. With a width,
/// columns that do not fit continue on further lines of their row, which begin
/// with `indent`; the last column may be wrapped.
std::string table_text(const table& rows, size_t width = 0,
                       const std::string& indent = "    ");

/// A printable text in lines of at most `width` characters, broken within words
/// if needed; lines after the first are indented. Width 0: one line.
std::string wrapped(const std::string& text, size_t width, size_t indent);

/// Prints "warning: ABOUT: TEXT" for each text on stderr.
void print_warnings(const std::string& about,
                    const std::vector<std::string>& texts);

/// Columns of the terminal at stdout; 0 without a terminal, so that scripts get
/// everything.
size_t terminal_width();

/// Prints the table in the terminal's width.
void print_table(const table& rows);

} // namespace millrace
