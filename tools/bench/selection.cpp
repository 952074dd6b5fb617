// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdlib>

#include "actors/policies/select/variant_catalogue.hpp"
#include "bench/bench.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "runtime/random.hpp"

namespace millrace {

namespace {

struct selection_options {
  size_t variants = 1000;
  size_t workers = 100;
  size_t applications = 8; ///< families of models in INFaaS, Table 6
  size_t queries = 2000;
  int rounds = 7;
};

constexpr size_t kinds = 3;

/// Draws accuracies, times and prices in the ranges of INFaaS, section 1. A
/// tenth of the variants have replicas, each on a tenth of the workers.
variant_catalogue draw(const selection_options& x, random_stream& chance) {
  variant_catalogue out;
  auto between = [&](double low, double high) {
    return low + (high - low) * chance.uniform();
  };
  for (size_t worker = 0; worker < x.workers; ++worker)
    for (size_t kind = 0; kind < kinds; ++kind)
      out.set_utilisation(worker, kind, chance.uniform());
  for (size_t i = 0; i < x.variants; ++i) {
    auto variant =
      out.add({std::to_string(chance.below(x.applications)),
               between(0.566, 0.825), between(0.0015, 5.7), between(0.59, 11),
               between(0.096, 3.06), chance.below(kinds)});
    if (chance.below(10) == 0)
      for (size_t n = 0; n < 1 + x.workers / 10; ++n)
        out.set_replica(variant, chance.below(x.workers), chance.uniform(),
                        chance.below(3) == 0);
  }
  return out;
}

variant_query draw_query(const selection_options& x, random_stream& chance) {
  return {std::to_string(chance.below(x.applications)),
          0.566 + 0.25 * chance.uniform(), 0.02 + chance.uniform()};
}

/// Microseconds of each choice, sorted.
struct choice_times {
  std::vector<double> index, scan;

  double at(const std::vector<double>& xs, double part) const {
    return xs[static_cast<size_t>(part * static_cast<double>(xs.size() - 1))];
  }
  void sort() {
    std::sort(index.begin(), index.end());
    std::sort(scan.begin(), scan.end());
  }
};

choice_times time_choices(const selection_options& x, uint64_t seed) {
  random_stream chance{seed};
  auto all = draw(x, chance);
  choice_times out;
  for (size_t i = 0; i < x.queries; ++i) {
    auto query = draw_query(x, chance);
    std::optional<variant_choice> found, expected;
    out.index.push_back(1e6 * seconds_of([&] {
                          found = all.choose(query, selection_rule::infaas);
                        }));
    out.scan.push_back(1e6 * seconds_of([&] {
                         expected = all.choose(query, selection_rule::brute);
                       }));
    if (found != expected)
      std::abort();
  }
  out.sort();
  return out;
}

int run_bench(const selection_options& x, const common_options& common) {
  progress_bar bar{"bench selection", !common.json};
  paired medians, tails;
  for (int i = 0; i < x.rounds; ++i) {
    bar.show(static_cast<double>(i) / x.rounds);
    auto found = time_choices(x, 1 + static_cast<uint64_t>(i));
    medians.add(found.at(found.index, 0.5), found.at(found.scan, 0.5));
    tails.add(found.at(found.index, 0.99), found.at(found.scan, 0.99));
  }
  bar.done();
  bench_report out{"selection", {}};
  auto size = std::to_string(x.variants) + " variants, "
              + std::to_string(x.workers) + " workers";
  out.results.push_back(
    medians.row(size + ", p50 of a choice", "us", "p50 of a scan"));
  out.results.push_back(
    tails.row(size + ", p99 of a choice", "us", "p99 of a scan"));
  print_report(out, common);
  return exit_ok;
}

} // namespace

void add_selection_bench(CLI::App& bench, common_options& common,
                         verb_action& run) {
  auto x = std::make_shared<selection_options>();
  auto* verb = bench.add_subcommand(
    "selection", "Time to choose a variant and a worker, compared with a scan");
  auto number = [&](const char* name, size_t& to, const char* meaning) {
    verb->add_option(name, to, meaning)
      ->transform(whole_number(1, 100'000))
      ->capture_default_str();
  };
  number("--variants", x->variants, "Variants, of all applications");
  number("--workers", x->workers, "Workers");
  number("--applications", x->applications, "Applications");
  number("--queries", x->queries, "Choices in a round");
  verb->add_option("--rounds", x->rounds, "Rounds, each with a new catalogue")
    ->transform(whole_number(1, 1000))
    ->capture_default_str();
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_bench(*x, common); };
  });
}

} // namespace millrace
