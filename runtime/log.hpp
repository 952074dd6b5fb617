// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "runtime/names.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// error: a person must act.
enum class log_level : uint8_t { debug, info, warning, error, off };

constexpr auto names_of(log_level) {
  return name_table{"debug", "info", "warning", "error", "off"};
}

/// One named value of a log event.
struct log_field {
  std::string_view key;
  std::string value;

  log_field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  log_field(std::string_view k, std::string_view v) : key(k), value(v) {}
  log_field(std::string_view k, const char* v) : key(k), value(v) {}
  template <class T>
  requires std::is_arithmetic_v<T> log_field(std::string_view k, T v)
    : key(k),
      value(std::to_string(v)) {}
  template <named_enum T>
  log_field(std::string_view k, T v) : key(k),
                                       value(to_string(v)) {}
};

/// Writes one event: "TIME +UPTIME LEVEL COMPONENT.EVENT key=value ...".
/// A value with spaces or control characters is quoted.
void log_event(log_level level, std::string_view component,
               std::string_view event,
               std::initializer_list<log_field> fields = {});

/// The wall-clock time as text for people: UTC, in seconds.
std::string wall_time();

/// The wall-clock time since 1970; also only for display.
microseconds wall_clock();

/// Sets the lowest level that is printed; initially info.
void set_log_level(log_level least);
log_level current_log_level();

/// Sends formatted lines to a function (for tests and simulations) instead of
/// stderr. An empty function restores stderr. Not thread-safe with respect to
/// logging.
using log_sink = std::function<void(log_level, std::string_view line)>;
void set_log_sink(log_sink sink);

} // namespace millrace
