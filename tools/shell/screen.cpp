// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <iostream>
#include <optional>
#include <set>

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"
#include "shell/words.hpp"

namespace millrace {

namespace {

constexpr char interrupt = 3; // ctrl-C in raw mode

/// Switches the terminal to full screen and raw mode during its lifetime.
class full_screen {
public:
  full_screen() {
    ::tcgetattr(0, &before_);
    auto raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    ::tcsetattr(0, TCSANOW, &raw);
    std::cout << "\x1b[?1049h\x1b[?25l"; // alternate screen, no cursor
  }
  ~full_screen() {
    std::cout << "\x1b[?25h\x1b[?1049l" << std::flush;
    ::tcsetattr(0, TCSANOW, &before_);
  }
  full_screen(const full_screen&) = delete;
  full_screen& operator=(const full_screen&) = delete;

  struct extent {
    size_t rows = 24, columns = 80;
  };
  static extent size() {
    winsize x{};
    if (::ioctl(1, TIOCGWINSZ, &x) != 0 || x.ws_row == 0)
      return {};
    return {x.ws_row, x.ws_col};
  }

  /// Replaces the lines on screen. If the text has too many lines, the last
  /// line on screen gives the number of missing lines.
  static void draw(const std::string& text) {
    auto lines = split(text, '\n');
    if (lines.back().empty())
      lines.pop_back();
    auto room = size().rows - 1;
    auto shown = lines.size() > room ? room - 1 : lines.size();
    std::string out = "\x1b[H";
    for (size_t i = 0; i < shown; ++i)
      out += std::string{lines[i]} + "\x1b[K\n";
    if (shown < lines.size())
      out += "... and " + std::to_string(lines.size() - shown)
             + " lines more, in a higher window or with parts hidden\x1b[K\n";
    std::cout << out << "\x1b[J" << std::flush;
  }

private:
  termios before_{};
};

bool at_terminal() {
  return ::isatty(0) != 0 && ::isatty(1) != 0;
}

/// The next key, if one is typed in time. The end of the input counts as
/// ctrl-C.
std::optional<char> read_key(microseconds longest) {
  pollfd x{0, POLLIN, 0};
  if (::poll(&x, 1, static_cast<int>(longest / 1ms)) <= 0)
    return std::nullopt;
  char c = 0;
  return ::read(0, &c, 1) == 1 ? c : interrupt;
}

/// Parses seconds as a person types them.
std::optional<microseconds> read_period(const std::string& text) {
  auto x = read_seconds(text);
  if (!x || *x < 100ms || *x > 3600s)
    return std::nullopt;
  return *x;
}

std::string bad_period(const std::string& text) {
  return "expected seconds between 0.1 and 3600, found " + shown(text);
}

/// A section of top, and the key that shows or hides it.
struct section {
  char key;
  const char* name;
};
constexpr std::array sections{section{'m', "models"}, section{'n', "nodes"},
                              section{'d', "devices"}, section{'r', "replicas"},
                              section{'w', "queues"}};

std::string top_text(operator_client& cluster, const std::set<char>& hidden,
                     size_t width) {
  auto x = ask_all(cluster);
  if (!x)
    return wrapped(wall_time() + "  " + x.failure().text, width, 4) + "\n";
  double requests = 0;
  for (auto& [node, load] : x->load)
    for (auto& r : load.replicas)
      requests += r.requests_per_second;
  auto out = wrapped(wall_time() + "  " + summary(*x) + ", "
                       + fixed(requests, 0) + " requests/s",
                     width, 4)
             + "\n";
  auto models = ask_registry(cluster);
  for (auto& line : troubles(cluster, *x, models))
    out += wrapped("! " + line, width, 4) + "\n";
  for (auto& line : departures(*x))
    out += wrapped("- " + line, width, 4) + "\n";
  auto add = [&](char key, const table& rows) {
    if (!hidden.contains(key) && rows.size() > 1)
      out += "\n" + table_text(rows, width);
  };
  if (models && !hidden.contains('m')) {
    auto demand =
      cluster.ask<demand_list>(models->node + "/cluster_state", get_demand{});
    add('m', model_table(models->list, demand ? *demand : demand_list{}));
  }
  add('n', node_table(*x));
  add('d', device_table(*x));
  add('r', replica_table(*x));
  if (!hidden.contains('w'))
    add('w', queue_table(ask_queues(cluster, *x)));
  return out;
}

} // namespace

std::string key_line(const std::set<char>& hidden, size_t width) {
  std::string out = "q quits, space refreshes";
  for (auto& x : sections)
    out += std::string{", "} + x.key + (hidden.contains(x.key) ? " + " : " - ")
           + x.name;
  return wrapped(out, width, 2);
}

int show_top(shell& in, const arguments& args) {
  if (in.form == output_form::json)
    return complain(in,
                    "top has no JSON output; use status, devices, replicas"
                    " or queue",
                    exit_wrong_call);
  auto period =
    args.empty() ? std::optional<microseconds>{1s} : read_period(args[0]);
  if (!period)
    return complain(in, bad_period(args[0]), exit_wrong_call);
  std::set<char> hidden;
  if (!at_terminal()) {
    std::cout << top_text(in.cluster, hidden, 0) << std::flush;
    return exit_ok;
  }
  full_screen screen;
  for (;;) {
    auto width = full_screen::size().columns;
    full_screen::draw(key_line(hidden, width) + "\n"
                      + top_text(in.cluster, hidden, width));
    auto key = read_key(*period);
    if (!key)
      continue;
    if (*key == 'q' || *key == interrupt)
      return exit_ok;
    for (auto& x : sections)
      if (x.key == *key && hidden.erase(x.key) == 0)
        hidden.insert(x.key);
  }
}

int watch_command(shell& in, const arguments& args) {
  auto words = args;
  auto period = read_period(words.front());
  if (!period && read_seconds(words.front()))
    return complain(in, bad_period(words.front()), exit_wrong_call);
  if (period)
    words.erase(words.begin());
  if (words.empty())
    return complain(in, "usage: watch [SECONDS] COMMAND...", exit_wrong_call);
  auto x = command_of(words);
  if (!x)
    return complain(in, x.failure().text, exit_wrong_call);
  if (!(*x)->watched)
    return complain(in,
                    "watch repeats commands that only read, and end; "
                      + words.front() + " is not one",
                    exit_wrong_call);
  auto pause = period.value_or(2s);
  auto title = joined(words, " ", [](auto& w) { return w; });
  if (!at_terminal()) {
    // Until ctrl-C, or until the reader of the output ends.
    while (std::cout) {
      run_command(in, words);
      in.cluster.idle(pause);
    }
    return exit_ok;
  }
  full_screen screen;
  for (;;) {
    std::cout << "\x1b[H\x1b[J" << wall_time() << "  every "
              << format_duration(pause) << ": " << title << " (q quits)\n\n";
    run_command(in, words);
    auto key = read_key(pause);
    if (key && (*key == 'q' || *key == interrupt))
      return exit_ok;
  }
}

} // namespace millrace
