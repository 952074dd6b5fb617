// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include "millrace/bench/bench.hpp"
#include "millrace/bench/bench_cluster.hpp"
#include "millrace/bench/driver.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "models/bundle_store.hpp"
#include "models/partition/cuts.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

struct cold_start_options : served_options {
  std::string model = "bert-base";
  size_t parts = 2;
};

constexpr auto load_patience = 120s;

/// The files of a bundle, which are in the system's memory once they were read.
class bundle_files {
public:
  explicit bundle_files(const std::string& folder) {
    std::error_code failed;
    for (auto& x :
         std::filesystem::recursive_directory_iterator{folder, failed})
      if (x.is_regular_file())
        paths_.push_back(x.path());
  }

  /// Reads them all, to nowhere.
  double seconds_to_read() const {
    return seconds_of([&] {
      std::vector<char> part(1 << 20);
      for (auto& path : paths_) {
        std::ifstream in{path, std::ios::binary};
        while (in.read(part.data(), static_cast<std::streamsize>(part.size())))
          ;
      }
    });
  }

private:
  std::vector<std::string> paths_;
};

/// A cluster that serves the model, or does not.
class server {
public:
  static result<server> start(const bench_setup& x, const std::string& model) {
    auto nodes = bench_cluster::start(x);
    if (!nodes)
      return nodes.failure();
    auto gateway = (*nodes)->connect(0);
    if (!gateway)
      return gateway.failure();
    auto shell = (*nodes)->operate();
    if (!shell)
      return shell.failure();
    for (auto until = steady_now() + load_patience; steady_now() < until;
         shell->idle(10ms)) {
      auto members = shell->ask<member_list>("./supervisor", get_members{});
      if (members && members->peers.size() == x.workers)
        break;
    }
    server out;
    out.model_ = model;
    out.nodes_ = std::move(*nodes);
    out.gateway_ = std::make_unique<client>(std::move(*gateway));
    out.shell_ = std::make_unique<operator_client>(std::move(*shell));
    return out;
  }

  /// Has it loaded. Returns the seconds until it was ready, and until its first
  /// answer.
  result<std::pair<double, double>> load() {
    auto begin = steady_now();
    if (auto done = want(1); !done)
      return done.failure();
    auto ready = to_seconds(steady_now() - begin);
    auto request = request_for(model_, *gateway_);
    if (!request)
      return request.failure();
    auto y = gateway_->infer_one(*request);
    if (y.status != ec::ok)
      return error{y.status, y.error, {}};
    return std::pair{ready, to_seconds(steady_now() - begin)};
  }

  result<void> unload() { return want(0); }

  /// The longest that one of its replicas took for a step.
  result<double> slowest(microseconds replica_status::*step) {
    microseconds most{0};
    for (auto& worker : nodes_->workers()) {
      auto x = shell_->ask<node_status>(worker + "/supervisor", get_status{});
      if (!x)
        return x.failure();
      for (auto& r : x->replicas)
        most = std::max(most, r.*step);
    }
    return to_seconds(most);
  }

private:
  /// Orders so many copies, and waits until they are there and no others.
  result<void> want(uint64_t copies) {
    auto list = shell_->ask<model_list>("./registry", get_models{});
    if (!list)
      return list.failure();
    auto settings = list->models.at(0).settings;
    settings.replicas = copies;
    auto done_so =
      shell_->ask<done>("./registry", set_model{settings, false, {}});
    if (!done_so)
      return done_so.failure();
    std::string note;
    for (auto until = steady_now() + load_patience; steady_now() < until;) {
      shell_->idle(1ms);
      list = shell_->ask<model_list>("./registry", get_models{});
      if (!list)
        return list.failure();
      auto& x = list->models.at(0);
      note = x.note;
      if (x.settings.replicas == copies && x.ready == copies && x.starting == 0)
        return {};
    }
    return error{ec::unavailable,
                 model_ + " was not loaded within "
                   + format_duration(load_patience)
                   + (note.empty() ? "" : ": " + note),
                 {}};
  }

  std::string model_;
  std::unique_ptr<bench_cluster> nodes_;
  std::unique_ptr<client> gateway_;
  std::unique_ptr<operator_client> shell_;
};

class cold_start_bench {
public:
  cold_start_bench(const cold_start_options& x, std::string bundles,
                   progress_bar& bar)
    : options_(x),
      bundles_(std::move(bundles)),
      files_(bundles_ + "/" + x.model),
      bar_(bar) {}

  result<bench_report> run() {
    auto model = bundle_store{bundles_}.open(options_.model, "", verify::sizes);
    if (!model)
      return model.failure();
    if (auto fine =
          check_cuts({options_.parts, {}, {}, 1}, model->info.layers.size());
        !fine)
      return std::move(fine.failure()).within(options_.model);
    auto whole = start("whole", 1);
    auto parts = whole ? start("parts", options_.parts) : std::move(whole);
    if (!parts)
      return parts.failure();
    bench_report out{"coldstart", {}};
    figures all{options_.model + ","};
    for (int round = 0; round < options_.rounds; ++round) {
      bar_.show(1.0 * round / options_.rounds, "round");
      if (auto done = run_round(*whole, *parts, all); !done)
        return done.failure();
    }
    all.append_to(out);
    return out;
  }

private:
  result<server> start(const std::string& name, size_t parts) {
    bar_.show(0, "starting " + name);
    return server::start(
      {folder_ / name,
       bundles_,
       {"{model: " + options_.model + ", replicas: 0, parts: "
        + std::to_string(parts) + ", policy: {batch: 1}}"},
       parts,
       recording::off,
       isolation_mode::thread},
      options_.model);
  }

  result<void> run_round(server& whole, server& parts, figures& all) {
    auto read = files_.seconds_to_read();
    auto one = whole.load();
    if (!one)
      return one.failure();
    auto one_load = whole.slowest(&replica_status::load);
    auto one_warm = whole.slowest(&replica_status::warm_up);
    if (auto done = whole.unload(); !done)
      return done;
    auto many = parts.load();
    if (!many)
      return many.failure();
    auto many_load = parts.slowest(&replica_status::load);
    auto many_warm = parts.slowest(&replica_status::warm_up);
    if (auto done = parts.unload(); !done)
      return done;
    for (auto* x : {&one_load, &one_warm, &many_load, &many_warm})
      if (!*x)
        return x->failure();
    auto name = std::to_string(options_.parts) + " parts: ";
    constexpr auto floor = "whole on one node";
    all.add(name + "ready", "s", many->first, one->first, floor);
    all.add(name + "first answer", "s", many->second, one->second, floor);
    all.add(name + "to load the largest part", "s", *many_load, *one_load,
            floor);
    all.add(name + "to warm it up", "s", *many_warm, *one_warm, floor);
    all.add("whole: ready", "s", one->first, read, "reading its files");
    return {};
  }

  cold_start_options options_;
  std::string bundles_;
  bundle_files files_;
  progress_bar& bar_;
  scratch_folder folder_;
};

int run_cold_start(const cold_start_options& x, const common_options& common) {
  auto bundles =
    bundles_with(x.models, {x.model}, "tools/example-models " + x.model);
  if (!bundles)
    return fail(common, bundles.failure());
  return report_on("coldstart", common, [&](progress_bar& bar) {
    return cold_start_bench{x, *bundles, bar}.run();
  });
}

} // namespace

void add_cold_start_bench(CLI::App& bench, common_options& common,
                          verb_action& run) {
  auto x = std::make_shared<cold_start_options>();
  auto* verb = add_subverb(
    bench, "coldstart",
    "From the order to the first answer: a model in parts beside a whole one",
    common, run, [x, &common] { return run_cold_start(*x, common); });
  add_served_options(*verb, *x, "the one of --model");
  verb->add_option("--model", x->model, "Which is loaded")
    ->capture_default_str();
  verb->add_option("--parts", x->parts, "How many, each on a node")
    ->transform(whole_number(2, 16))
    ->capture_default_str();
}

} // namespace millrace
