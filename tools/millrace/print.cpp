// SPDX-License-Identifier: Apache-2.0
#include "millrace/print.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace millrace {

std::string fixed(double x, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, x);
  return text;
}

int fail(const common_options& common, const error& x) {
  if (common.json)
    std::cout << json{{"error", x.text},
                      {"status", std::string{to_string(x.code)}}}
                   .dump()
              << std::endl;
  else
    std::cerr << "millrace: " << x.text << std::endl;
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

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size())
        widths.push_back(0);
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size())
        line.append(widths[i] - row[i].size() + 2, ' ');
    }
    std::cout << line << "\n";
  }
  std::cout << std::flush;
}

} // namespace millrace
