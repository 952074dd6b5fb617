// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>

#include <unistd.h>

#include "bench/bench.hpp"
#include "bench/bench_cluster.hpp"
#include "bench/driver.hpp"
#include "client/client.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "models/backend/backend.hpp"
#include "models/bundle_store.hpp"
#include "runtime/metrics.hpp"
#include "simulator/samples.hpp"

namespace millrace {

namespace {

struct path_options : timed_options {
  size_t window = 128;
};

/// A model, and the size of its requests.
struct path_case {
  std::string name;
  std::string model;
  size_t bytes; ///< of the request's tensor
};

/// A direct call of the model in this process, with one row.
result<std::function<nanoseconds()>> direct_call(const std::string& bundles,
                                                 const std::string& model) {
  auto content = bundle_store{bundles}.open(model, "", verify::sizes);
  if (!content)
    return content.failure();
  auto runner = torch_backend(code_trust::full);
  if (!runner)
    return runner.failure();
  (*runner)->enter_thread(1);
  auto shared = std::make_shared<bundle>(std::move(*content));
  auto stage = (*runner)->load(shared, 0, 1);
  if (!stage)
    return stage.failure();
  tensor_list inputs;
  auto& s = shared->info.signature;
  for (auto& spec : s.inputs)
    inputs.push_back(*tensor::zeros(spec.type, with_rows(s, spec, 1)));
  std::shared_ptr<loaded_stage> kept = std::move(*stage);
  return std::function<nanoseconds()>{[kept, inputs] {
    auto begin = steady_now();
    static_cast<void>(kept->run(inputs));
    return nanoseconds{steady_now() - begin};
  }};
}

class path_bench {
public:
  path_bench(const path_options& x, progress_bar& bar)
    : options_(x),
      length_(*parse_duration(x.length)),
      bar_(bar) {}

  result<bench_report> run(const std::vector<path_case>& cases, client& gateway,
                           client& counting, client& confined) {
    bench_report out{"path", {}};
    // First, while both nodes have the same history.
    if (auto done = run_metrics(cases.front(), gateway, counting, out); !done)
      return done.failure();
    for (auto& x : cases)
      if (auto done = run_confined(x, gateway, confined, out); !done)
        return done.failure();
    for (size_t i = 0; i < cases.size(); ++i) {
      auto done = run_case(cases[i], gateway, out,
                           .9 * static_cast<double>(i)
                             / static_cast<double>(cases.size()),
                           .9 / static_cast<double>(cases.size()));
      if (!done)
        return done.failure();
    }
    return out;
  }

private:
  /// Compares a node with metrics and one without.
  result<void> run_metrics(const path_case& x, client& gateway,
                           client& counting, bench_report& out) {
    auto request = request_for(x.model, gateway);
    if (!request)
      return request.failure();
    runtime_echo without{gateway, *request}, with{counting, *request};
    paired rate;
    for (int round = 0; round < 2 * options_.rounds; ++round) {
      bar_.show(.05 * round / options_.rounds, "metrics");
      // Alternates the order, so that each is first half of the time.
      if (round % 2 == 0) {
        auto floor = without.throughput(options_.window, length_);
        rate.add(with.throughput(options_.window, length_), floor);
      } else {
        auto ours = with.throughput(options_.window, length_);
        rate.add(ours, without.throughput(options_.window, length_));
      }
    }
    out.results.push_back(
      rate.row(x.name + " throughput, metrics on", "1/s", "metrics off"));
    auto fine = without.verdict();
    return fine ? with.verdict() : fine;
  }

  /// Compares a model in a process of its own with one in a thread.
  result<void> run_confined(const path_case& x, client& gateway,
                            client& confined, bench_report& out) {
    auto request = request_for(x.model, gateway);
    if (!request)
      return request.failure();
    runtime_echo thread{gateway, *request}, process{confined, *request};
    figures all{x.name};
    for (int round = 0; round < options_.rounds; ++round) {
      bar_.show(.05, x.name + ", in a process");
      auto floor = latency([&] { return thread.round_trip(); }, length_);
      auto ours = latency([&] { return process.round_trip(); }, length_);
      all.add("p50, in a process", "us", ours.first, floor.first,
              "in a thread");
      all.add("p99, in a process", "us", ours.second, floor.second,
              "in a thread");
      auto most = x.bytes > 100'000 ? size_t{4} : options_.window;
      auto rate = thread.throughput(most, length_);
      all.add("throughput, in a process", "1/s",
              process.throughput(most, length_), rate, "in a thread");
    }
    all.append_to(out);
    auto fine = thread.verdict();
    return fine ? process.verdict() : fine;
  }

  result<void> run_case(const path_case& x, client& gateway, bench_report& out,
                        double from, double part) {
    auto direct = direct_call(options_.models, x.model);
    if (!direct)
      return direct.failure();
    auto zeromq = make_zeromq_floor(x.bytes);
    if (!zeromq)
      return zeromq.failure();
    auto tcp = make_tcp_floor(x.bytes);
    if (!tcp)
      return tcp.failure();
    auto request = request_for(x.model, gateway);
    if (!request)
      return request.failure();
    runtime_echo ours{gateway, *request};
    runtime_echo frame_each{gateway, *request, runtime_echo::single};
    figures all{x.name};
    auto latencies = [&](auto& mine, double p50, double p99, const char* of) {
      all.add("p50", "us", mine.first, p50, of);
      all.add("p99", "us", mine.second, p99, of);
    };
    for (int round = 0; round < options_.rounds; ++round) {
      bar_.show(from + part * round / options_.rounds, x.name);
      auto echo = latency([&] { return (*zeromq)->round_trip(); }, length_);
      auto mine = latency([&] { return ours.round_trip(); }, length_);
      auto model = latency(*direct, length_ / 4);
      // Model code and parameters leave the caches between two requests.
      auto paced =
        latency([&] { return (*zeromq)->round_trip() + (*direct)(); }, length_);
      auto bare = latency([&] { return (*tcp)->round_trip(); }, length_ / 4);
      latencies(mine, echo.first + model.first, echo.second + model.second,
                "bare ZeroMQ echo + model");
      latencies(mine, paced.first, paced.second, "echo and model in turns");
      latencies(mine, bare.first, bare.second, "raw TCP echo");
      latencies(mine, model.first, model.second, "direct LibTorch call");
      auto most = x.bytes > 100'000 ? size_t{4} : options_.window;
      auto echo_rate = (*zeromq)->throughput(most, length_);
      auto rate = ours.throughput(most, length_);
      all.add("throughput", "1/s", rate, echo_rate, "bare ZeroMQ echo");
      all.add("throughput", "1/s", rate, (*tcp)->throughput(1, length_ / 4),
              "raw TCP echo, one at a time");
      all.add("throughput", "1/s", rate, 1e6 / model.first,
              "direct LibTorch call, one row");
      all.add("throughput, a frame each", "1/s",
              frame_each.throughput(most, length_), echo_rate,
              "bare ZeroMQ echo");
    }
    all.append_to(out);
    auto fine = ours.verdict();
    return fine ? frame_each.verdict() : fine;
  }

  path_options options_;
  microseconds length_;
  progress_bar& bar_;
};

int run_path(const path_options& x, const common_options& common) {
  const std::vector<path_case> cases{
    {"trivial model", "bench-identity", 64},
    {"digits-small", "digits-small", 256},
    {"600 KB image", "bench-image", 602'112},
  };
  std::vector<std::string> names;
  for (auto& c : cases)
    names.push_back(c.model);
  auto bundles =
    bundles_with(x.models, names, "tools/example-models digits bench");
  if (!bundles)
    return fail(common, bundles.failure());
  scratch_folder folder; // destroyed after the nodes
  auto start = [&](const char* name, recording mode, isolation_mode where) {
    bench_setup setup{folder / name, *bundles, {}, 0, mode, where};
    for (auto& model : names)
      setup.models.push_back("{model: " + model + ", policy: {batch: 256}}");
    return bench_cluster::start(setup);
  };
  auto node = start("plain", recording::off, isolation_mode::thread);
  auto counting = start("counting", recording::on, isolation_mode::thread);
  auto confined = start("confined", recording::off, isolation_mode::process);
  for (auto* n : {&node, &counting, &confined})
    if (!*n)
      return fail(common, n->failure());
  auto gateway = (*node)->connect(cases.size());
  auto other = (*counting)->connect(cases.size());
  auto third = (*confined)->connect(cases.size());
  for (auto* g : {&gateway, &other, &third})
    if (!*g)
      return fail(common, g->failure());
  return report_on("path", common, [&](progress_bar& bar) {
    return path_bench{x, bar}.run(cases, *gateway, *other, *third);
  });
}

} // namespace

void add_path_bench(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<path_options>();
  auto* verb =
    add_subverb(app, "path", "Latency and throughput of requests over TCP",
                common, run, [x, &common] { return run_path(*x, common); });
  add_timed_options(*verb, *x, "digits-small, bench-identity, bench-image");
  verb->add_option("--window", x->window, "Open requests, for throughput")
    ->transform(whole_number(1))
    ->capture_default_str();
}

} // namespace millrace
