// SPDX-License-Identifier: Apache-2.0
#include "millrace/bench/bench.hpp"

#include <algorithm>
#include <iostream>

#include "millrace/print.hpp"

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

void print_report(const bench_report& x, const common_options& common) {
  if (common.json) {
    std::cout << to_json(x).dump() << std::endl;
    return;
  }
  std::vector<std::vector<std::string>> rows{
    {"WHAT", "MEDIAN", "FLOOR", "RATIO", "FLOOR IS"}};
  auto number = [](double value, const std::string& unit) {
    return fixed(value, value < 100 ? 2 : 0) + " " + unit;
  };
  for (auto& r : x.results)
    rows.push_back({r.name, number(r.value, r.unit), number(r.floor, r.unit),
                    fixed(r.ratio, 2), r.floor_name});
  print_table(rows);
}

} // namespace millrace
