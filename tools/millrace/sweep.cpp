// SPDX-License-Identifier: Apache-2.0
#include "millrace/sweep.hpp"

#include <algorithm>
#include <functional>
#include <iostream>

#include "config/scenario.hpp"
#include "millrace/child.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "millrace/simulate_child.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Limit for the number of combinations.
constexpr size_t most_variants = 10'000;

/// One combination of values.
struct variant {
  std::vector<std::string> values; ///< per sweep
  child_result got;
};

struct axis {
  std::string key;
  std::vector<std::string> values;
};

/// Splits a text at commas, except within brackets and braces.
std::vector<std::string_view> values_in(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    auto c = i < text.size() ? text[i] : ',';
    depth += (c == '[' || c == '{') - (c == ']' || c == '}');
    if (i == text.size() || (c == ',' && depth == 0)) {
      out.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  return out;
}

result<std::vector<axis>> read_axes(const std::vector<std::string>& sweeps) {
  std::vector<axis> out;
  for (auto& x : sweeps) {
    auto equals = x.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == x.size())
      return error{
        ec::bad_request, "--sweep: expected KEY=A,B,C, found " + shown(x), {}};
    axis y{x.substr(0, equals), {}};
    for (auto value : values_in(std::string_view{x}.substr(equals + 1))) {
      if (value.empty())
        return error{
          ec::bad_request, "--sweep: a value is empty in " + shown(x), {}};
      y.values.emplace_back(value);
    }
    if (std::any_of(out.begin(), out.end(),
                    [&](auto& z) { return z.key == y.key; }))
      return error{
        ec::bad_request, "--sweep: " + y.key + " is there twice", {}};
    out.push_back(std::move(y));
  }
  return out;
}

result<std::vector<variant>> combine(const std::vector<axis>& axes) {
  std::vector<variant> out(1);
  for (auto& x : axes) {
    std::vector<variant> more;
    for (auto& v : out)
      for (auto& value : x.values) {
        more.push_back(v);
        more.back().values.push_back(value);
      }
    if (more.size() > most_variants)
      return error{ec::bad_request, "--sweep: more than 10,000 variants", {}};
    out = std::move(more);
  }
  return out;
}

/// Refuses a key that the scenario does not have, with the nearest known one.
result<void> check_keys(const std::vector<axis>& axes, const std::string& file,
                        const std::vector<std::string>& same) {
  std::vector<std::string> set;
  for (size_t i = 0; i + 1 < same.size(); ++i)
    if (same[i] == "--set")
      set.push_back(same[++i]);
  for (auto& x : axes) {
    if (x.key == "seed")
      continue;
    auto with = set;
    with.push_back(x.key + "=" + x.values.front());
    auto what = load_scenario(file, with);
    if (what)
      continue;
    // Values may be valid only with other keys' values, and are checked later.
    auto& text = what.failure().text;
    if (auto at = text.find("unknown key"); at != std::string::npos)
      return error{
        ec::bad_request, "--sweep " + x.key + ": " + text.substr(at), {}};
  }
  return {};
}

std::vector<std::string> arguments_of(const variant& x,
                                      const std::vector<axis>& axes,
                                      const std::vector<std::string>& same,
                                      const std::string& out) {
  auto args = same;
  std::string name;
  for (size_t i = 0; i < axes.size(); ++i) {
    auto seed = axes[i].key == "seed";
    args.push_back(seed ? "--seed" : "--set");
    args.push_back(seed ? x.values[i] : axes[i].key + "=" + x.values[i]);
    name += (i == 0 ? "" : ",") + axes[i].key + "=" + x.values[i];
  }
  for (auto& c : name)
    c = c == '/' ? '-' : c;
  if (!out.empty())
    args.insert(args.end(), {"--out", out + "/" + name});
  return args;
}

int print_sweep(const std::vector<axis>& axes,
                const std::vector<variant>& variants,
                const common_options& common) {
  auto list = json::array();
  std::vector<std::vector<std::string>> rows(1);
  for (auto& x : axes)
    rows[0].push_back(x.key);
  rows[0].insert(rows[0].end(), {"requests", "in time/s", "missed %", "p50 ms",
                                 "p99 ms", "batch", "busy %", "cost"});
  auto status = exit_ok;
  std::vector<std::string> errors;
  for (auto& x : variants) {
    auto row = x.values;
    auto values = json::object();
    for (size_t i = 0; i < axes.size(); ++i)
      values[axes[i].key] = x.values[i];
    if (x.got.error.empty()) {
      auto& all = x.got.found["all"];
      auto number = [](const json& from, const char* key, double times,
                       int digits) {
        return fixed(times * from[key].get<double>(), digits);
      };
      row.insert(row.end(),
                 {number(all, "requests", 1, 0), number(all, "goodput", 1, 1),
                  number(all, "slo_violations", 100, 2),
                  number(all["latency_ok"], "p50_ms", 1, 2),
                  number(all["latency_ok"], "p99_ms", 1, 2),
                  number(all, "batch", 1, 1),
                  number(x.got.found, "utilisation", 100, 1),
                  number(x.got.found, "cost", 1, 2)});
      list.push_back({{"variant", values}, {"result", x.got.found}});
    } else {
      row.resize(rows[0].size(), "-");
      errors.push_back(joined(x.values, ", ", std::identity{}) + ": "
                       + x.got.error);
      status = exit_failed;
      list.push_back({{"variant", values}, {"error", x.got.error}});
    }
    rows.push_back(std::move(row));
  }
  if (common.json)
    std::cout << json_text(list) << std::endl;
  else
    print_table(rows);
  if (!common.json)
    print_warnings("no result", errors);
  return status;
}

} // namespace

int run_sweep(const std::string& file, const std::vector<std::string>& sweeps,
              const std::vector<std::string>& same, const std::string& out,
              const common_options& common) {
  auto axes = read_axes(sweeps);
  if (!axes)
    return wrong_call(common, axes.failure());
  for (auto& x : *axes)
    if (x.key == "seed" && std::count(same.begin(), same.end(), "--seed") != 0)
      return wrong_call(
        common,
        {ec::bad_request, "--seed and --sweep seed= exclude each other", {}});
  if (auto fine = check_keys(*axes, file, same); !fine)
    return wrong_call(common, fine.failure());
  auto variants = combine(*axes);
  if (!variants)
    return wrong_call(common, variants.failure());
  progress_bar bar{"sweep", !common.json};
  auto n = variants->size();
  do_all(
    n,
    [&](size_t i) {
      auto& x = (*variants)[i];
      x.got = simulate_in_child(file, arguments_of(x, *axes, same, out));
    },
    [&](size_t done) {
      bar.show(static_cast<double>(done) / static_cast<double>(n),
               std::to_string(done) + " of " + std::to_string(n));
    });
  bar.done();
  return print_sweep(*axes, *variants, common);
}

} // namespace millrace
