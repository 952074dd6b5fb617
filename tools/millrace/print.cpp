// SPDX-License-Identifier: Apache-2.0
#include "millrace/print.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>

#include <sys/ioctl.h>
#include <unistd.h>

namespace millrace {

namespace {

json printable_json(const json& x) {
  if (x.is_string())
    return printable(x.get_ref<const std::string&>());
  if (!x.is_structured())
    return x;
  auto out = x.is_object() ? json::object() : json::array();
  for (auto& [key, y] : x.items())
    if (x.is_object())
      out[printable(key)] = printable_json(y);
    else
      out.push_back(printable_json(y));
  return out;
}

} // namespace

std::string json_text(const json& value) {
  return printable_json(value).dump();
}

std::string fixed(double number, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, number);
  return text;
}

int all_written(int status) {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0)
    return status;
  std::cerr << "the output could not be written" << std::endl;
  return status == exit_ok ? int{exit_failed} : status;
}

int fail(const common_options& common, const error& why) {
  auto text = printable(why.text);
  if (common.json)
    std::cout << json_text(
      json{{"error", text}, {"status", std::string{to_string(why.code)}}})
              << std::endl;
  else
    std::cerr << "millrace: " << text << std::endl;
  return exit_failed;
}

int refuse(const common_options& common, const error& why) {
  fail(common, why);
  return why.code == ec::bad_config ? exit_bad_config : exit_failed;
}

int wrong_call(const common_options& common, const error& why) {
  fail(common, why);
  return exit_wrong_call;
}

CLI::Validator whole_number(uint64_t min, uint64_t max) {
  auto range = std::to_string(min) + " to "
               + (max == UINT64_MAX ? "2^64-1" : std::to_string(max));
  auto read = [=](std::string& text) {
    auto x = number_in<uint64_t>(text);
    if (!x || *x < min || *x > max)
      return "expected a whole number of " + range + ", found " + shown(text);
    text = std::to_string(*x);
    return std::string{};
  };
  return {read, range};
}

CLI::App* add_subverb(CLI::App& parent, const std::string& name,
                      const std::string& text, common_options& common,
                      verb_action& run, verb_action action) {
  auto* verb = parent.add_subcommand(name, text);
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([&run, action = std::move(action)] { run = action; });
  return verb;
}

void add_client_options(CLI::App& verb, client_options& options) {
  verb.add_option("--gateway", options.gateway, "Address of a gateway")
    ->capture_default_str();
  verb
    .add_option("--key", options.key,
                "File of your key, for a cluster with keys (millrace keys)")
    ->envname("MILLRACE_KEY");
}

namespace {

/// Number of UTF-8 characters.
size_t length_of(const std::string& x) {
  return static_cast<size_t>(std::count_if(
    x.begin(), x.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// A range of UTF-8 characters.
std::string part_of(const std::string& x, size_t from, size_t to) {
  std::string out;
  size_t n = 0; // characters begun
  for (auto c : x) {
    n += (c & 0xC0) != 0x80;
    if (n > from && n <= to)
      out += c;
  }
  return out;
}

/// Breaks a text into lines of at most `width` characters, also within words.
std::string in_lines(const std::string& text, size_t width,
                     const std::string& end_of_line) {
  if (length_of(text) <= width)
    return text;
  std::istringstream in{text};
  std::string out;
  size_t used = 0; // characters in the current line
  for (std::string word; in >> word;) {
    auto length = length_of(word);
    auto fits = used + (used > 0) + length <= width;
    if (used > 0)
      out += fits ? " " : end_of_line;
    used = fits && used > 0 ? used + 1 : 0;
    for (size_t from = 0; from < length; from += width) {
      auto to = std::min(length, from + width);
      out += (from > 0 ? end_of_line : "") + part_of(word, from, to);
      used = (from > 0 ? 0 : used) + to - from;
    }
  }
  return out;
}

constexpr size_t gap = 2;
constexpr size_t narrowest_wrapped = 24;

/// Columns [first, last) that share a line of each row.
struct column_line {
  size_t first = 0, last = 0;
};

std::vector<size_t> widths_of(const table& rows) {
  std::vector<size_t> out;
  for (auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == out.size())
        out.push_back(0);
      out[i] = std::max(out[i], length_of(row[i]));
    }
  return out;
}

/// Distributes columns over lines of at most `width` characters; lines after
/// the first are indented. A column wider than a line gets its own line and is
/// narrowed. The last column of the table is narrowed, too, if it can be
/// wrapped.
std::vector<column_line> pack(std::vector<size_t>& widths, size_t width,
                              size_t indent) {
  std::vector<column_line> out;
  for (size_t i = 0; i < widths.size();) {
    auto room = std::max(narrowest_wrapped, width)
                - (out.empty() ? 0 : std::min(indent, width / 2));
    auto used = widths[i] = std::min(widths[i], room);
    auto last = i + 1;
    for (; last < widths.size(); ++last) {
      auto least = last + 1 == widths.size()
                     ? std::min(widths[last], narrowest_wrapped)
                     : widths[last];
      if (used + gap + least > room)
        break;
      widths[last] = std::min(widths[last], room - used - gap);
      used += gap + widths[last];
    }
    out.push_back({i, last});
    i = last;
  }
  return out;
}

/// Uses as few lines as possible, of about equal length. Exception: a long last
/// column that is not in every row may be alone in the last line.
std::vector<column_line> lines_of(std::vector<size_t>& widths, size_t width,
                                  size_t indent) {
  if (width == 0)
    return {{0, widths.size()}};
  const auto natural = widths;
  auto out = pack(widths, width, indent);
  auto text_is_last = !out.empty() && out.back().first + 1 == widths.size()
                      && natural.back() > narrowest_wrapped;
  if (out.size() < 2 || text_is_last)
    return out;
  for (auto limit = narrowest_wrapped; limit < width; ++limit) {
    auto wanted = natural;
    auto even = pack(wanted, limit, indent);
    if (even.size() == out.size() && wanted == natural) {
      widths = natural;
      return even;
    }
  }
  return out;
}

/// The cells of a row that share a line; the last one may wrap.
std::string line_text(const std::vector<std::string>& row,
                      const column_line& part,
                      const std::vector<size_t>& widths,
                      const std::string& indent) {
  std::string out = part.first == 0 ? "" : indent;
  auto at = length_of(out);
  for (auto i = part.first; i < std::min(part.last, row.size()); ++i) {
    auto is_last = i + 1 == part.last || i + 1 == row.size();
    out += is_last ? in_lines(row[i], widths[i], "\n" + std::string(at, ' '))
                   : row[i];
    if (!is_last)
      out.append(widths[i] - length_of(row[i]) + gap, ' ');
    at += widths[i] + gap;
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

} // namespace

std::string table_text(const table& as_given, size_t width,
                       const std::string& indent) {
  auto rows = as_given;
  for (auto& row : rows)
    for (auto& cell : row) {
      cell = printable(cell);
      std::replace(cell.begin(), cell.end(), '\n', ' ');
    }
  auto widths = widths_of(rows);
  auto lines = lines_of(widths, width, length_of(indent));
  std::string out;
  for (auto& row : rows)
    for (auto& part : lines) {
      auto from = std::min(part.first, row.size());
      auto is_empty = std::all_of(
        row.begin() + static_cast<std::ptrdiff_t>(from),
        row.begin()
          + static_cast<std::ptrdiff_t>(std::min(part.last, row.size())),
        [](auto& cell) { return cell.empty(); });
      if (part.first == 0 || !is_empty)
        out += line_text(row, part, widths, indent);
    }
  return out;
}

std::string wrapped(const std::string& text, size_t width, size_t indent) {
  auto all = printable(text);
  if (width <= indent)
    return all;
  return in_lines(all, width - indent, "\n" + std::string(indent, ' '));
}

void print_warnings(const std::string& about,
                    const std::vector<std::string>& texts) {
  for (auto& x : texts)
    std::cerr << wrapped("warning: " + about + ": " + x, terminal_width(), 2)
              << std::endl;
}

size_t terminal_width() {
  winsize x{};
  if (::isatty(1) == 0 || ::ioctl(1, TIOCGWINSZ, &x) != 0)
    return 0;
  return x.ws_col;
}

void print_table(const table& rows) {
  std::cout << table_text(rows, terminal_width()) << std::flush;
}

int run_program(CLI::App& app, const common_options& common,
                const verb_action& run, int argc, char** argv) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    // CLI11's own error only reports a missing verb.
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty())
      std::cerr << "no verb " << shown(argv[1]) << "; there are "
                << joined(app.get_subcommands(nullptr), ", ",
                          [](auto* x) { return x->get_name(); })
                << std::endl;
    else if (app.exit(e) == 0)
      return exit_ok;
    return exit_wrong_call;
  }
  try {
    return all_written(run());
  } catch (const std::exception& e) { // any other error, such as lack of memory
    return fail(common, {ec::internal, e.what(), {}});
  }
}

} // namespace millrace
