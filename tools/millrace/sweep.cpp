// SPDX-License-Identifier: Apache-2.0
#include "millrace/sweep.hpp"

#include <cstring>
#include <iostream>
#include <map>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// More combinations than anybody looks at.
constexpr size_t most_variants = 10'000;

/// One combination of values.
struct variant {
  std::vector<std::string> values; ///< per sweep
  json found;
  std::string error;
};

struct axis {
  std::string key;
  std::vector<std::string> values;
};

result<std::vector<axis>> read_axes(const std::vector<std::string>& sweeps) {
  std::vector<axis> out;
  for (auto& x : sweeps) {
    auto equals = x.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == x.size())
      return error{ec::bad_request,
                   "--sweep: expected KEY=A,B,C, found " + shown(x),
                   {}};
    axis y{x.substr(0, equals), {}};
    for (auto value : split(x.substr(equals + 1), ','))
      y.values.emplace_back(value);
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

/// A child process whose standard output is read to its end.
class child {
public:
  explicit child(const std::vector<std::string>& arguments) {
    int ends[2];
    if (::pipe(ends) != 0)
      return;
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 1);
      ::close(ends[0]);
      ::close(ends[1]);
      std::vector<char*> argv;
      for (auto& x : arguments)
        argv.push_back(const_cast<char*>(x.c_str()));
      argv.push_back(nullptr);
      ::execv("/proc/self/exe", argv.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ends[0];
  }

  /// What it wrote.
  std::string wait() {
    std::string text;
    char part[65'536];
    for (ssize_t n = 0; out_ >= 0 && (n = ::read(out_, part, sizeof part)) > 0;)
      text.append(part, static_cast<size_t>(n));
    if (out_ >= 0)
      ::close(out_);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    return text;
  }

private:
  pid_t pid_ = -1;
  int out_ = -1;
};

std::vector<std::string> arguments_of(const variant& x,
                                      const std::vector<axis>& axes,
                                      const std::string& file,
                                      const std::vector<std::string>& same,
                                      const std::string& out) {
  std::vector<std::string> args{"millrace", "simulate", file, "--json"};
  args.insert(args.end(), same.begin(), same.end());
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

void take(variant& x, const std::string& text) {
  auto y = json::parse(text, nullptr, false);
  if (y.is_object() && y.contains("all"))
    x.found = std::move(y);
  else if (y.is_object() && y.contains("error"))
    x.error = y["error"].is_string() ? y["error"].get<std::string>()
                                     : y["error"].dump();
  else
    x.error = "it printed no result";
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
  for (auto& x : variants) {
    auto row = x.values;
    auto values = json::object();
    for (size_t i = 0; i < axes.size(); ++i)
      values[axes[i].key] = x.values[i];
    if (x.error.empty()) {
      auto& all = x.found["all"];
      auto number = [](const json& from, const char* key, double times,
                       int digits) {
        return fixed(times * from[key].get<double>(), digits);
      };
      row.insert(row.end(),
                 {number(all, "requests", 1, 0), number(all, "goodput", 1, 1),
                  number(all, "slo_violations", 100, 2),
                  number(all, "p50_ms", 1, 2), number(all, "p99_ms", 1, 2),
                  number(all, "batch", 1, 1),
                  number(x.found, "utilisation", 100, 1),
                  number(x.found, "cost", 1, 2)});
      list.push_back({{"variant", values}, {"result", x.found}});
    } else {
      row.push_back(x.error);
      status = exit_failed;
      list.push_back({{"variant", values}, {"error", x.error}});
    }
    rows.push_back(std::move(row));
  }
  if (common.json)
    std::cout << list.dump() << std::endl;
  else
    print_table(rows);
  return status;
}

} // namespace

int run_sweep(const std::string& file, const std::vector<std::string>& sweeps,
              const std::vector<std::string>& same, const std::string& out,
              const common_options& common) {
  auto axes = read_axes(sweeps);
  if (!axes)
    return fail(common, axes.failure());
  auto variants = combine(*axes);
  if (!variants)
    return fail(common, variants.failure());
  progress_bar bar{"sweep", !common.json};
  std::atomic<size_t> next{0}, done{0};
  auto work = [&] {
    for (size_t i; (i = next++) < variants->size();) {
      auto& x = (*variants)[i];
      take(x, child{arguments_of(x, *axes, file, same, out)}.wait());
      ++done;
    }
  };
  auto cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < std::min<size_t>(cores, variants->size()); ++i)
    threads.emplace_back(work);
  while (done < variants->size()) {
    std::this_thread::sleep_for(milliseconds{20});
    bar.show(static_cast<double>(done)
               / static_cast<double>(variants->size()),
             std::to_string(done) + " of " + std::to_string(variants->size()));
  }
  for (auto& t : threads)
    t.join();
  bar.done();
  return print_sweep(*axes, *variants, common);
}

} // namespace millrace
