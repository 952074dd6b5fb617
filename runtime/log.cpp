// SPDX-License-Identifier: Apache-2.0
#include "runtime/log.hpp"

#include <atomic>
#include <ctime>

#include <spdlog/fmt/chrono.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "runtime/event_memory.hpp"
#include "runtime/text.hpp"
#include "runtime/time.hpp"

namespace millrace {

namespace {

std::atomic<log_level> least_level{log_level::info};

log_sink& other_sink() {
  static log_sink sink;
  return sink;
}

spdlog::logger& stderr_logger() {
  static auto logger = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    auto out = std::make_shared<spdlog::logger>("millrace", std::move(sink));
    // Wall time for people; log_event adds the monotonic one, for ordering.
    out->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %v");
    out->set_level(spdlog::level::trace);
    out->flush_on(spdlog::level::info);
    return out;
  }();
  return *logger;
}

double uptime() {
  static const auto start = steady_now();
  return to_seconds(steady_now() - start);
}

bool needs_quotes(std::string_view x) {
  if (x.empty())
    return true;
  for (auto c : x)
    if (c == ' ' || c == '\n' || c == '"' || c == '=')
      return true;
  return false;
}

/// Values may contain input from clients and other nodes.
void append_value(std::string& out, std::string_view x) {
  auto clean = printable(x);
  if (!needs_quotes(clean)) {
    out += clean;
    return;
  }
  out += '"';
  for (auto c : clean) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  out += '"';
}

} // namespace

std::string wall_time() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

microseconds wall_clock() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::chrono::duration_cast<microseconds>(seconds{now.tv_sec}
                                                  + nanoseconds{now.tv_nsec});
}

namespace {

std::string wall_time_milliseconds() {
  auto now = wall_clock();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::time_t{now / 1s}), now % 1s / 1ms);
}

} // namespace

void set_log_level(log_level least) {
  least_level = least;
}

log_level current_log_level() {
  return least_level;
}

void set_log_sink(log_sink sink) {
  other_sink() = std::move(sink);
}

void log_event(log_level level, std::string_view component,
               std::string_view event,
               std::initializer_list<log_field> fields) {
  auto said = level >= least_level.load(std::memory_order_relaxed);
  if (!said && level < log_level::info)
    return;
  std::string line{component};
  line += '.';
  line += event;
  for (auto& x : fields) {
    line += ' ';
    line += x.key;
    line += '=';
    append_value(line, x.value);
  }
  if (auto& sink = other_sink()) {
    if (said)
      sink(level, line);
    return;
  }
  if (level >= log_level::info)
    remembered_events().add({wall_time_milliseconds(), level, line});
  if (!said)
    return;
  char head[48];
  std::snprintf(head, sizeof head, "+%.6f %-7s ", uptime(),
                std::string{to_string(level)}.c_str());
  stderr_logger().info("{}{}", head, line);
}

} // namespace millrace
