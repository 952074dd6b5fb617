// SPDX-License-Identifier: Apache-2.0

/// \file
/// `millrace-bench copies`: the memory of several replicas of a model on one
/// host, compared with one copy of the parameters and the activations of each
/// replica; and the memory that remains after many loads and unloads.

#include "bench/bench.hpp"
#include "bench/starts_by_order.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "models/backend/backend.hpp"
#include "models/bundle_store.hpp"
#include "models/crossing.hpp"

namespace millrace {

namespace {

/// Loads and unloads before a node's caches have their final size.
constexpr uint64_t settling_cycles = 10;

/// Replicas are then warm, and have freed their temporary memory.
constexpr auto until_idle = 3s;

struct copies_options : served_options {
  std::string model = "bert-base";
  std::vector<uint64_t> copies{1, 2, 4};
  uint64_t cycles = 0; ///< 0: none
};

/// The memory of a cluster's processes with `copies` replicas, each of which
/// has answered a request, `later` after the last answer.
result<held_memory> memory_with(cluster_by_order& x, uint64_t copies,
                                microseconds later = 0us) {
  if (copies == 0) {
    if (auto done = x.model().unload(); !done)
      return done.failure();
  } else if (auto took = x.model().load(copies); !took) {
    return took.failure();
  }
  x.shell().idle(later);
  return x.nodes().memory();
}

/// The memory after one more load and unload.
result<held_memory> memory_after_cycle(cluster_by_order& x) {
  auto loaded = memory_with(x, 1);
  return loaded ? memory_with(x, 0) : loaded;
}

class copies_bench {
public:
  copies_bench(const copies_options& x, std::string bundles, progress_bar& bar)
    : options_(x),
      bundles_(std::move(bundles)),
      bar_(bar) {}

  result<bench_report> run() {
    auto model =
      bundle_store{bundles_}.open(options_.model, "", verify::hashes);
    if (!model)
      return model.failure();
    auto info = model->info;
    parameters_ = static_cast<double>(info.weights.bytes);
    auto pass =
      bytes_of_pass(std::make_shared<const bundle>(std::move(*model)));
    if (!pass)
      return pass.failure();
    pass_ = static_cast<double>(*pass);
    figures all{options_.model + ","};
    for (int round = 0; round < options_.rounds; ++round)
      for (auto where : {isolation_mode::thread, isolation_mode::process,
                         isolation_mode::device}) {
        std::string how{to_string(where)};
        auto node = cluster_by_order::start(
          {folder_ / (how + std::to_string(round)),
           bundles_,
           {"{model: " + options_.model + ", replicas: 0, policy: {batch: 1}}"},
           0,
           recording::off,
           where},
          info);
        if (!node)
          return node.failure();
        where_ = where == isolation_mode::device ? "in one process, "
                                                 : "in a " + how + " each, ";
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

  /// The most bytes of tensors that a pass over one row allocates at a time.
  static result<uint64_t> bytes_of_pass(std::shared_ptr<const bundle> model) {
    auto backend = torch_backend(code_trust::none);
    if (!backend)
      return backend.failure();
    (*backend)->enter_thread(1);
    auto stage = (*backend)->load(model, 0, model->info.layers.size());
    auto row = zeros_across(model->info, 0, 1);
    if (!stage || !row)
      return stage ? row.failure() : stage.failure();
    uint64_t peak = 0;
    auto outputs = (*stage)->run(*row, {}, &peak);
    return outputs ? result<uint64_t>{peak} : outputs.failure();
  }

  result<void> count_copies(cluster_by_order& node, figures& all) {
    auto none = memory_after_cycle(node);
    if (!none)
      return none.failure();
    auto rest = static_cast<double>(none->all - none->weights);
    for (auto copies : options_.copies) {
      auto taken = memory_with(node, copies, until_idle);
      if (!taken)
        return taken.failure();
      auto name =
        where_ + std::to_string(copies) + (copies == 1 ? " copy" : " copies");
      all.add(name + ": parameters", "MiB",
              static_cast<double>(taken->weights) / mib, parameters_ / mib,
              "the weights file");
      all.add(name + ": in all", "MiB",
              (static_cast<double>(taken->all) - rest) / mib,
              (parameters_ + static_cast<double>(copies) * pass_) / mib,
              "the file + what a pass allocates, each");
    }
    auto left = memory_with(node, 0);
    return left ? result<void>{} : left.failure();
  }

  result<void> go_round(cluster_by_order& node, figures& all) {
    double settled = 0, last = 0;
    for (uint64_t i = 0; i < settling_cycles + options_.cycles; ++i) {
      bar_.show(static_cast<double>(i)
                  / static_cast<double>(settling_cycles + options_.cycles),
                where_ + "loaded and unloaded");
      auto bytes = memory_after_cycle(node);
      if (!bytes)
        return bytes.failure();
      last = static_cast<double>(bytes->all);
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
  double pass_ = 0;       ///< bytes
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
  auto* verb =
    add_subverb(bench, "copies",
                "Memory of a model's replicas on one host, and after unloading",
                common, run, [x, &common] { return run_copies(*x, common); });
  add_served_options(*verb, *x, "the one of --model");
  verb->add_option("--model", x->model, "Name of the model")
    ->capture_default_str();
  verb->add_option("--copies", x->copies, "Number of replicas")
    ->delimiter(',')
    ->check(CLI::Range(1, 64))
    ->capture_default_str();
  verb
    ->add_option("--cycles", x->cycles,
                 "Also load and unload the model this often, after ten times")
    ->transform(whole_number(1, 1'000'000));
}

} // namespace millrace
