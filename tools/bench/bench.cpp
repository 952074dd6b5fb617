// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <algorithm>
#include <iostream>

#include "millrace/print.hpp"
#include "runtime/units.hpp"

namespace millrace {

double median(std::vector<double> xs) {
  if (xs.empty())
    return 0;
  std::sort(xs.begin(), xs.end());
  return xs[xs.size() / 2];
}

bench_row paired::row(std::string name, std::string unit,
                      std::string floor_name) const {
  return {std::move(name), median(values_),       std::move(unit),
          median(floors_), std::move(floor_name), median(ratios_)};
}

void print_report(const bench_report& report, const common_options& common) {
  if (common.json) {
    std::cout << json_text(to_json(report)) << std::endl;
    return;
  }
  std::vector<std::vector<std::string>> rows{
    {"WHAT", "MEDIAN", "FLOOR", "RATIO", "FLOOR IS"}};
  auto number = [](double value, const std::string& unit) {
    return fixed(value, value < 100 ? 2 : 0) + " " + unit;
  };
  for (auto& r : report.results)
    rows.push_back({r.name, number(r.value, r.unit), number(r.floor, r.unit),
                    fixed(r.ratio, 2), r.floor_name});
  print_table(rows);
}

void add_served_options(CLI::App& bench, served_options& options,
                        const std::string& bundles) {
  bench.add_option("--models", options.models, "Bundles: " + bundles)
    ->capture_default_str();
  bench.add_option("--rounds", options.rounds, "Interleaved rounds")
    ->transform(whole_number(1, 10'000))
    ->capture_default_str();
}

void add_timed_options(CLI::App& bench, timed_options& options,
                       const std::string& bundles) {
  add_served_options(bench, options, bundles);
  bench.add_option("--time", options.length, "Length of each measurement")
    ->check([](const std::string& text) {
      auto length = parse_duration(text);
      if (!length)
        return length.failure().text;
      return *length < 1ms ? "expected 1 ms or more" : std::string{};
    })
    ->capture_default_str();
}

int report_on(const std::string& name, const common_options& common,
              const std::function<result<bench_report>(progress_bar&)>& bench) {
  progress_bar bar{"bench " + name, !common.json};
  auto report = bench(bar);
  bar.done();
  if (!report)
    return fail(common, report.failure());
  print_report(*report, common);
  return exit_ok;
}

} // namespace millrace
