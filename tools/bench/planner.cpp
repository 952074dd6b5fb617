// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "bench/bench.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "models/partition/planner.hpp"
#include "models/profile_book.hpp"
#include "runtime/program_folder.hpp"
#include "runtime/random.hpp"

namespace millrace {

namespace {

struct planner_options {
  std::string model = "t5-3b";
  int rounds = 11;
};

constexpr uint64_t most_requests = 3000;
constexpr size_t lookups = 100'000;

result<layer_costs> costs_of(const std::string& model) {
  auto found =
    read_profile(program_folder() + "/profiles/flashpoint.yaml", model);
  if (!found)
    return found.failure();
  return layer_costs_of(*found, found->points.at(0).device, 1, {});
}

/// Keeps the compiler from removing computations.
class checksum {
public:
  void add(double x) { sum_ += x; }
  ~checksum() {
    if (std::isnan(sum_))
      std::abort();
  }

private:
  double sum_ = 0;
};

/// The time to look up results: the mean response of one plan for each number
/// of stages and each number of requests.
double read_off(const partition_planner& x) {
  return seconds_of([&] {
    checksum sum;
    for (size_t parts = 1; parts <= x.max_parts(); ++parts)
      for (uint64_t n = 1; n <= most_requests; ++n)
        sum.add(mean_response(x.plans_of(parts).front(), n, x.max_parts()));
  });
}

double look_up(const partition_planner& x, uint64_t seed) {
  random_stream random{seed};
  return seconds_of([&] {
    checksum sum;
    for (size_t i = 0; i < lookups; ++i) {
      auto n = 1 + random.below(most_requests);
      sum.add(x.best(n, 1 + random.below(x.max_parts())).cold);
    }
  });
}

/// The same number of searches, in a table with a line for each number of
/// requests.
double search(uint64_t seed) {
  std::vector<double> table(most_requests);
  for (size_t i = 0; i < table.size(); ++i)
    table[i] = static_cast<double>(i);
  random_stream random{seed};
  return seconds_of([&] {
    checksum sum;
    for (size_t i = 0; i < lookups; ++i) {
      auto n = static_cast<double>(random.below(most_requests));
      sum.add(*std::lower_bound(table.begin(), table.end(), n));
      sum.add(static_cast<double>(random.below(2))); // as a number of devices
    }
  });
}

/// The same number of layers, all different: the worst case for planning.
layer_costs unlike(size_t layers, uint64_t seed) {
  random_stream random{seed};
  layer_costs out;
  for (size_t i = 0; i < layers; ++i) {
    out.cold.push_back(random.uniform());
    out.execute.push_back(0.01 * random.uniform());
    out.transfer.push_back(0.005 * random.uniform());
  }
  return out;
}

/// The times to plan for a model, and to look up its plans.
struct planner_times {
  paired planned, found;

  void measure(const layer_costs& costs, uint64_t seed) {
    std::optional<partition_planner> plans;
    auto planning = seconds_of([&] {
      plans.emplace(costs);
      if (plans->ranges(plans->max_parts(), most_requests).empty())
        std::abort();
    });
    planned.add(1e3 * planning, 1e3 * read_off(*plans));
    constexpr auto each = 1e6 / lookups;
    found.add(each * look_up(*plans, seed), each * search(seed));
  }

  void add_to(bench_report& out, const std::string& model) const {
    out.results.push_back(planned.row(model + ", all p, all x to 3000", "ms",
                                      "mean response of each x and p"));
    out.results.push_back(
      found.row(model + ", one lookup", "us", "a search in 3000 lines"));
  }
};

int run_bench(const planner_options& x, const common_options& common) {
  auto costs = costs_of(x.model);
  if (!costs)
    return fail(common, costs.failure());
  progress_bar bar{"bench planner", !common.json};
  planner_times profiled, random;
  for (int i = 0; i < x.rounds; ++i) {
    bar.show(static_cast<double>(i) / x.rounds);
    auto seed = static_cast<uint64_t>(i);
    profiled.measure(*costs, seed);
    random.measure(unlike(costs->layers(), seed), seed);
  }
  bar.done();
  bench_report out{"planner", {}};
  auto layers = " (" + std::to_string(costs->layers()) + " layers)";
  profiled.add_to(out, x.model + layers);
  random.add_to(out, "random" + layers);
  print_report(out, common);
  return exit_ok;
}

} // namespace

void add_planner_bench(CLI::App& bench, common_options& common,
                       verb_action& run) {
  auto x = std::make_shared<planner_options>();
  auto* verb = bench.add_subcommand(
    "planner", "Time to plan a model's cuts, and to look up a plan");
  verb->add_option("--model", x->model, "One of the bundled profiles")
    ->capture_default_str();
  verb->add_option("--rounds", x->rounds, "Interleaved rounds")
    ->transform(whole_number(1, 1000))
    ->capture_default_str();
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_bench(*x, common); };
  });
}

} // namespace millrace
