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
concept time_span = requires(const T& x) {
  x.count();
  x.zero();
};

/// What a member is called in JSON: a time says that it is in microseconds.
template <class T>
std::string json_name(std::string_view name, const T&) {
  return std::string{name} + (time_span<T> ? "_us" : "");
}

/// A declared record as JSON; durations in microseconds, sizes in bytes,
/// bandwidths in bytes per second.
template <class T>
json to_json(const T& x) {
  if constexpr (declared<T>) {
    auto out = json::object();
    for_each_field(x, [&](std::string_view name, auto& member) {
      out[json_name(name, member)] = to_json(member);
    });
    return out;
  } else if constexpr (named_enum<T>) {
    return std::string{to_string(x)};
  } else if constexpr (time_span<T>) {
    return x.count();
  } else if constexpr (std::is_same_v<T, byte_count>) {
    return x.value;
  } else if constexpr (std::is_same_v<T, bandwidth>) {
    return x.bytes_per_second;
  } else if constexpr (requires {
                         x.has_value();
                         *x;
                       }) {
    return x ? to_json(*x) : json{};
  } else if constexpr (requires { typename T::mapped_type; }) {
    auto out = json::object();
    for (auto& [key, y] : x)
      out[key] = to_json(y);
    return out;
  } else if constexpr (requires {
                         typename T::value_type;
                         x.begin();
                       }
                       && !std::is_same_v<T, std::string>) {
    auto out = json::array();
    for (auto& y : x)
      out.push_back(to_json(y));
    return out;
  } else {
    return x;
  }
}

/// The way back, for what another process of this program printed; what is not
/// there stays. Throws json::exception on another kind of value.
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

/// A value as one line of JSON. Its texts may come from clients, models or
/// other nodes, and are printable afterwards.
std::string json_text(const json& x);

/// "12.5": so many digits after the point.
std::string fixed(double x, int digits);

/// Prints the error as every verb does and returns its exit status.
int fail(const common_options& common, const error& x);

/// The same for who reads a configuration: one that is refused has its own.
int refuse(const common_options& common, const error& x);

/// The exit status of a program that has printed all it has to: this, unless
/// stdout did not take it.
int all_written(int status);

/// Prints what is wrong with the command line and returns that exit status.
int wrong_call(const common_options& common, const error& x);

/// "ok 12, late 3": a count each.
template <class Map>
std::string listed(const Map& counts) {
  return joined(counts, ", ", [](auto& x) {
    return x.first + " " + std::to_string(x.second);
  });
}

/// Takes a whole number in decimal: CLI11 alone reads 010 as 8, and makes
/// something of -1 and 1e3.
CLI::Validator whole_number(uint64_t min = 0, uint64_t max = UINT64_MAX);

/// Rows of cells, the first a heading.
using table = std::vector<std::vector<std::string>>;

/// Rows in aligned columns, in printable text; no cell is cut. With a width,
/// columns that do not fit go to further lines of their row, which begin with
/// `indent`; the last column may be wrapped.
std::string table_text(const table& rows, size_t width = 0,
                       const std::string& indent = "    ");

/// A printable text in lines of at most that width, those after the first
/// indented; in one line for a width of 0. Words that are longer are broken.
std::string wrapped(const std::string& text, size_t width, size_t indent);

/// "warning: ABOUT: TEXT" of each, on stderr.
void print_warnings(const std::string& about,
                    const std::vector<std::string>& texts);

/// Columns of the terminal that stdout is; 0 when it is none, so that scripts
/// get everything.
size_t terminal_width();

/// Prints it as wide as the terminal is.
void print_table(const table& rows);

} // namespace millrace
