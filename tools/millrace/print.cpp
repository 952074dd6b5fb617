// SPDX-License-Identifier: Apache-2.0
#include "millrace/print.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <sstream>

#include <sys/ioctl.h>
#include <unistd.h>

namespace millrace {

std::string fixed(double x, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

int all_written(int status) {
  std::cout.flush();
  if (std::cout && std::fflush(stdout) == 0)
    return status;
  std::cerr << "the output could not be written" << std::endl;
  return status == exit_ok ? int{exit_failed} : status;
}

int fail(const common_options& common, const error& x) {
  auto text = printable(x.text);
  if (common.json)
    std::cout << json{{"error", text},
                      {"status", std::string{to_string(x.code)}}}
                   .dump()
              << std::endl;
  else
    std::cerr << "millrace: " << text << std::endl;
  return exit_failed;
}

int refuse(const common_options& common, const error& x) {
  fail(common, x);
  return x.code == ec::bad_config ? exit_bad_config : exit_failed;
}

int wrong_call(const common_options& common, const error& x) {
  fail(common, x);
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

void add_client_options(CLI::App& verb, client_options& x) {
  verb.add_option("--gateway", x.gateway, "Address of a gateway")
    ->capture_default_str();
  verb
    .add_option("--key", x.key,
                "File of your key, where the cluster has keys (millrace keys)")
    ->envname("MILLRACE_KEY");
}

namespace {

/// Characters, of UTF-8.
size_t length_of(const std::string& x) {
  return static_cast<size_t>(std::count_if(
    x.begin(), x.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

/// Some of the characters, of UTF-8.
std::string part_of(const std::string& x, size_t from, size_t to) {
  std::string out;
  size_t n = 0; // begun
  for (auto c : x) {
    n += (c & 0xC0) != 0x80;
    if (n > from && n <= to)
      out += c;
  }
  return out;
}

/// A text in lines of at most so many characters; longer words are broken.
std::string in_lines(const std::string& text, size_t width,
                     const std::string& end_of_line) {
  if (length_of(text) <= width)
    return text;
  std::istringstream in{text};
  std::string out;
  size_t used = 0; // of the line
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

/// At most so many characters, one of them an ellipsis where there were more:
/// at the end of a sentence; in the middle of a name, whose end tells it from
/// others.
std::string cut(const std::string& x, size_t most) {
  auto length = length_of(x);
  if (length <= most)
    return x;
  auto is_name = x.find(' ') == std::string::npos;
  auto behind = is_name ? (most - 1) / 2 : 0;
  return part_of(x, 0, most - 1 - behind) + "…"
         + part_of(x, length - behind, length);
}

constexpr size_t gap = 2;
constexpr size_t narrowest = 6;
constexpr size_t narrowest_wrapped = 24;

std::vector<size_t> widths_of(const table& rows, size_t width,
                              last_column last) {
  std::vector<size_t> out;
  for (auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == out.size())
        out.push_back(0);
      out[i] = std::max(out[i], length_of(row[i]));
    }
  auto total = [&] {
    auto n = gap * (out.size() - 1);
    for (auto w : out)
      n += w;
    return n;
  };
  while (width > 0 && !out.empty() && total() > width) {
    auto widest = std::max_element(out.begin(), out.end());
    if (last == last_column::wrapped && out.back() > narrowest_wrapped)
      widest = out.end() - 1;
    if (*widest <= narrowest)
      break;
    --*widest;
  }
  return out;
}

} // namespace

std::string table_text(const table& as_given, size_t width, last_column last) {
  auto rows = as_given;
  for (auto& row : rows)
    for (auto& cell : row) {
      cell = printable(cell);
      std::replace(cell.begin(), cell.end(), '\n', ' ');
    }
  auto widths = widths_of(rows, width, last);
  std::string out;
  for (auto& row : rows) {
    size_t at = 0; // where the last column begins
    for (size_t i = 0; i + 1 < row.size(); ++i) {
      auto cell = cut(row[i], widths[i]);
      out += cell;
      out.append(widths[i] - length_of(cell) + gap, ' ');
      at += widths[i] + gap;
    }
    if (!row.empty() && last == last_column::cut)
      out += cut(row.back(), widths[row.size() - 1]);
    else if (!row.empty())
      out += in_lines(row.back(), widths[row.size() - 1],
                      "\n" + std::string(at, ' '));
    out += "\n";
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
  std::cout << table_text(rows, terminal_width(), last_column::wrapped)
            << std::flush;
}

} // namespace millrace
