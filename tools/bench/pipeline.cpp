// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "bench/bench.hpp"
#include "bench/bench_cluster.hpp"
#include "bench/driver.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

/// A model with nearly no computation, and outputs as large as its inputs.
struct relay {
  const char* name;
  const char* model;
  size_t bytes;
};

constexpr relay relays[] = {
  {"64 KiB", "bench-relay-64k", 65'536},
  {"588 KiB", "bench-relay-588k", 602'112},
  {"4 MiB", "bench-relay-4m", 4'194'304},
};

/// A model with layers of equal computing time and little output.
constexpr auto computing = "bench-matrices";
constexpr int64_t computing_rows = 64;

constexpr size_t stages = 4;
constexpr auto cuts = static_cast<double>(stages - 1);

/// Time until all monitors have new measurements.
constexpr auto counted_by = 2500ms;

using cluster_ptr = std::unique_ptr<bench_cluster>;

/// The bytes of tensors that a cluster's workers have copied so far.
result<double> bytes_copied(const bench_cluster& x) {
  auto shell = x.operate();
  if (!shell)
    return shell.failure();
  double out = 0;
  for (auto& worker : x.workers()) {
    auto load = shell->ask<node_load>(worker + "/monitor", get_load{});
    if (!load)
      return load.failure();
    out += static_cast<double>(load->copied);
  }
  return out;
}

class pipeline_bench {
public:
  pipeline_bench(const timed_options& x, const std::string& bundles,
                 progress_bar& bar)
    : rounds_(x.rounds),
      length_(*parse_duration(x.length)),
      bundles_(bundles),
      bar_(bar) {}

  result<bench_report> run() {
    // In sequence, because idle nodes use processor time, too.
    auto done = run_throughput();
    if (done)
      done = run_latencies();
    if (!done)
      return done.failure();
    return std::move(report_);
  }

private:
  /// A cluster, and its client.
  struct side {
    cluster_ptr nodes;
    std::unique_ptr<client> gateway;
  };

  /// A cluster with one stage of each model on each worker.
  struct part_side {
    side& by;
    std::string where;
  };

  /// Starts a cluster. `parts`: stages of each model, one on each worker; 1:
  /// whole replicas. `rows`: rows of a batch.
  result<side> start(const std::string& name,
                     const std::vector<std::string>& models, int64_t rows,
                     size_t workers, size_t parts,
                     isolation_mode where = isolation_mode::thread) {
    bar_.show(report_.results.empty() ? 0 : .2, "starting " + name);
    bench_setup x{folder_ / name, bundles_, {}, workers, recording::off, where};
    for (auto& model : models)
      x.models.push_back("{model: " + model
                         + ", parts: " + std::to_string(parts)
                         + ", replicas: " + std::to_string(workers / parts)
                         + ", policy: {batch: " + std::to_string(rows) + "}}");
    auto nodes = bench_cluster::start(x);
    if (!nodes)
      return nodes.failure();
    auto gateway = (*nodes)->connect(x.models.size());
    if (!gateway)
      return gateway.failure();
    return side{std::move(*nodes),
                std::make_unique<client>(std::move(*gateway))};
  }

  result<void> run_throughput() {
    auto whole = start("one", {computing}, computing_rows, 1, 1),
         twice = start("two", {computing}, computing_rows, 2, 1),
         halves = start("halves", {computing}, computing_rows, 2, 2);
    for (auto* x : {&whole, &twice, &halves})
      if (!*x)
        return x->failure();
    auto request = request_for(computing, *whole->gateway, computing_rows);
    if (!request)
      return request.failure();
    runtime_echo one{*whole->gateway, *request},
      two{*halves->gateway, *request}, both{*twice->gateway, *request};
    figures all{"compute-bound"};
    for (int round = 0; round < rounds_; ++round) {
      bar_.show(.2 * round / rounds_, "throughput");
      auto floor = one.throughput(window, 4 * length_);
      auto ours = two.throughput(window, 4 * length_);
      auto most = both.throughput(window, 4 * length_);
      all.add("2 stages, throughput", "1/s", ours, floor,
              "both parts on one core");
      all.add("2 stages, throughput", "1/s", ours, most,
              "two whole replicas, a core each");
      auto alone = latency([&] { return one.round_trip(); }, length_);
      auto cut = latency([&] { return two.round_trip(); }, length_);
      all.add("2 stages, p50", "us", cut.first, alone.first, "whole model");
    }
    all.append_to(report_);
    for (auto* x : {&one, &two, &both})
      if (auto fine = x->verdict(); !fine)
        return fine;
    return {};
  }

  result<void> run_latencies() {
    std::vector<std::string> models;
    for (auto& x : relays)
      models.emplace_back(x.model);
    auto whole = start("whole", models, 1, 1, 1),
         quarters = start("quarters", models, 1, stages, stages),
         confined = start("confined", models, 1, stages, stages,
                          isolation_mode::process);
    for (auto* x : {&whole, &quarters, &confined})
      if (!*x)
        return x->failure();
    std::vector<part_side> in_parts{{*quarters, ""},
                                    {*confined, ", in processes"}};
    result<void> done;
    for (size_t i = 0; done && i < std::size(relays); ++i)
      done = run_latency(relays[i], *whole, in_parts,
                         .2 + .25 * static_cast<double>(i));
    for (auto& x : in_parts)
      if (done)
        done = count_copies(x);
    return done;
  }

  result<void> run_latency(const relay& x, side& alone_on,
                           const std::vector<part_side>& in_parts,
                           double from) {
    auto request = request_for(x.model, *alone_on.gateway);
    if (!request)
      return request.failure();
    auto echo = make_zeromq_floor(x.bytes);
    if (!echo)
      return echo.failure();
    runtime_echo whole{*alone_on.gateway, *request};
    figures all{x.name};
    for (int round = 0; round < rounds_; ++round) {
      bar_.show(from + .25 * round / rounds_, x.name);
      auto there_and_back =
        latency([&] { return (*echo)->round_trip(); }, length_).first;
      auto alone = latency([&] { return whole.round_trip(); }, length_).first;
      for (auto& [by, where] : in_parts) {
        runtime_echo parts{*by.gateway, *request};
        auto took = latency([&] { return parts.round_trip(); }, length_).first;
        if (auto fine = parts.verdict(); !fine)
          return fine;
        all.add("4 stages, p50" + where, "us", took, alone, "whole model");
        all.add("added by a cut" + where, "us", (took - alone) / cuts,
                there_and_back, "bare ZeroMQ echo of the activation");
      }
    }
    all.append_to(report_);
    return whole.verdict();
  }

  /// The copies that nodes make of an activation's bytes between two stages.
  result<void> count_copies(const part_side& on) {
    constexpr size_t requests = 200;
    auto& x = relays[1];
    auto& gateway = *on.by.gateway;
    bar_.show(.95, "copies");
    auto request = request_for(x.model, gateway);
    if (!request)
      return request.failure();
    static_cast<void>(gateway.receive(counted_by));
    auto before = bytes_copied(*on.by.nodes);
    for (size_t i = 0; i < requests; ++i)
      if (auto y = gateway.infer_one(*request); y.status != ec::ok)
        return error{y.status, y.error, {}};
    static_cast<void>(gateway.receive(counted_by));
    auto after = bytes_copied(*on.by.nodes);
    if (!before || !after)
      return before ? after.failure() : before.failure();
    figures all{x.name};
    all.add("copied at each stage" + on.where, "bytes",
            (*after - *before) / (requests * stages),
            static_cast<double>(x.bytes), "the activation once");
    all.append_to(report_);
    return {};
  }

  static constexpr size_t window = 8;

  int rounds_;
  microseconds length_;
  std::string bundles_;
  progress_bar& bar_;
  scratch_folder folder_; // destroyed after the nodes
  bench_report report_{"pipeline", {}};
};

int run_pipeline(const timed_options& x, const common_options& common) {
  std::vector<std::string> models{computing};
  for (auto& r : relays)
    models.emplace_back(r.model);
  auto bundles = bundles_with(x.models, models, "tools/example-models bench");
  if (!bundles)
    return fail(common, bundles.failure());
  return report_on("pipeline", common, [&](progress_bar& bar) {
    return pipeline_bench{x, *bundles, bar}.run();
  });
}

} // namespace

void add_pipeline_bench(CLI::App& bench, common_options& common,
                        verb_action& run) {
  auto x = std::make_shared<timed_options>();
  auto* verb = add_subverb(
    bench, "pipeline",
    "Costs and gains of cutting a model into stages, on nodes of this host",
    common, run, [x, &common] { return run_pipeline(*x, common); });
  add_timed_options(*verb, *x, "bench-relay-*, bench-matrices");
}

} // namespace millrace
