// SPDX-License-Identifier: Apache-2.0

/// \file
/// `bench copies`: the memory that several replicas of a model take on one
/// host, beside one copy of its parameters and what each needs of its own; and
/// what is left of that once it was loaded and unloaded many times.

#include "millrace/bench/bench.hpp"
#include "millrace/bench/bench_cluster.hpp"
#include "millrace/bench/starts_by_order.hpp"
#include "millrace/progress.hpp"
#include "models/bundle_store.hpp"

namespace millrace {

namespace {

/// Loads and unloads until what a node keeps of them is there.
constexpr uint64_t settling_cycles = 10;

struct copies_options : served_options {
  std::string model = "bert-base";
  std::vector<uint64_t> copies{2, 4};
  uint64_t cycles = 0; ///< 0: none
};

/// A node that serves the model, or does not.
class host_of_copies {
public:
  static result<host_of_copies> start(const bench_setup& x,
                                      const std::string& model) {
    host_of_copies out;
    auto nodes = bench_cluster::start(x);
    if (!nodes)
      return nodes.failure();
    out.nodes_ = std::move(*nodes);
    auto gateway = out.nodes_->connect(0);
    if (!gateway)
      return gateway.failure();
    out.gateway_ = std::make_unique<client>(std::move(*gateway));
    auto shell = out.nodes_->operate();
    if (!shell)
      return shell.failure();
    out.shell_ = std::make_unique<operator_client>(std::move(*shell));
    out.model_.emplace(model, *out.gateway_, *out.shell_);
    return out;
  }

  /// Bytes, while there are so many copies and each has answered something.
  result<double> with(uint64_t copies) {
    if (copies == 0) {
      if (auto done = model_->unload(); !done)
        return done.failure();
    } else if (auto took = model_->load(copies); !took) {
      return took.failure();
    }
    auto bytes = nodes_->memory();
    if (bytes == 0)
      return error{ec::unavailable,
                   "the system does not tell what memory a process has",
                   {}};
    return static_cast<double>(bytes);
  }

  /// After one more start and end.
  result<double> after_cycle() {
    if (auto loaded = with(1); !loaded)
      return loaded;
    return with(0);
  }

private:
  std::unique_ptr<bench_cluster> nodes_;
  std::unique_ptr<client> gateway_;
  std::unique_ptr<operator_client> shell_;
  std::optional<starts_by_order> model_;
};

class copies_bench {
public:
  copies_bench(const copies_options& x, std::string bundles, progress_bar& bar)
    : options_(x),
      bundles_(std::move(bundles)),
      bar_(bar) {}

  result<bench_report> run() {
    auto model = bundle_store{bundles_}.open(options_.model, "", verify::sizes);
    if (!model)
      return model.failure();
    parameters_ = static_cast<double>(model->info.weights.bytes);
    figures all{options_.model + ","};
    for (int round = 0; round < options_.rounds; ++round)
      for (auto where : {isolation_mode::thread, isolation_mode::process}) {
        std::string how{to_string(where)};
        auto node = host_of_copies::start(
          {folder_ / (how + std::to_string(round)),
           bundles_,
           {"{model: " + options_.model + ", replicas: 0, policy: {batch: 1}}"},
           0,
           recording::off,
           where},
          options_.model);
        if (!node)
          return node.failure();
        where_ = "in a " + how + " each, ";
        bar_.show(1.0 * round / options_.rounds, where_ + "copies");
        if (auto done = count_copies(*node, all); !done)
          return done.failure();
        if (options_.cycles > 0)
          if (auto done = go_round(*node, all); !done)
            return done.failure();
      }
    bench_report out{"copies", {}};
    all.append_to(out);
    return out;
  }

private:
  static constexpr double mib = 1 << 20;

  result<void> count_copies(host_of_copies& node, figures& all) {
    auto none = node.after_cycle(); // and its parameters are in memory
    auto one = none ? node.with(1) : none;
    if (!one)
      return one.failure();
    auto rest = *none - parameters_;
    auto own = std::max(0.0, *one - *none);
    for (auto copies : options_.copies) {
      auto taken = node.with(copies);
      if (!taken)
        return taken.failure();
      all.add(where_ + std::to_string(copies) + " copies", "MiB",
              (*taken - rest) / mib,
              (parameters_ + static_cast<double>(copies) * own) / mib,
              "its parameters + what one takes beside them, each");
    }
    all.add(where_ + "beside its parameters, one copy", "MiB", own / mib,
            parameters_ / mib, "its parameters");
    auto left = node.with(0);
    return left ? result<void>{} : left.failure();
  }

  result<void> go_round(host_of_copies& node, figures& all) {
    double settled = 0, last = 0;
    for (uint64_t i = 0; i < settling_cycles + options_.cycles; ++i) {
      bar_.show(static_cast<double>(i)
                  / static_cast<double>(settling_cycles + options_.cycles),
                where_ + "loaded and unloaded");
      auto bytes = node.after_cycle();
      if (!bytes)
        return bytes.failure();
      last = *bytes;
      if (i + 1 == settling_cycles)
        settled = last;
    }
    all.add(where_ + "after " + std::to_string(options_.cycles)
              + " more loads and unloads",
            "MiB", last / mib, settled / mib, "after the first ten");
    return {};
  }

  copies_options options_;
  std::string bundles_;
  progress_bar& bar_;
  scratch_folder folder_;
  double parameters_ = 0; ///< bytes
  std::string where_;
};

int run_copies(const copies_options& x, const common_options& common) {
  auto bundles =
    bundles_with(x.models, {x.model}, "tools/example-models " + x.model);
  if (!bundles)
    return fail(common, bundles.failure());
  return report_on("copies", common, [&](progress_bar& bar) {
    return copies_bench{x, *bundles, bar}.run();
  });
}

} // namespace

void add_copies_bench(CLI::App& bench, common_options& common,
                      verb_action& run) {
  auto x = std::make_shared<copies_options>();
  x->rounds = 3;
  auto* verb = add_subverb(
    bench, "copies",
    "The memory of a model's copies on one host, and what loading leaves",
    common, run, [x, &common] { return run_copies(*x, common); });
  add_served_options(*verb, *x, "the one of --model");
  verb->add_option("--model", x->model, "Which is loaded")
    ->capture_default_str();
  verb->add_option("--copies", x->copies, "How many at a time")
    ->delimiter(',')
    ->check(CLI::Range(2, 64))
    ->capture_default_str();
  verb
    ->add_option("--cycles", x->cycles,
                 "Also load and unload it so often, after ten times")
    ->transform(whole_number(1, 1'000'000));
}

} // namespace millrace
