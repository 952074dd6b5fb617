// SPDX-License-Identifier: Apache-2.0

/// \file
/// `millrace-bench chain`: the time until N hosts have received a model, over
/// links of known speed (tests/bench/shaped_hosts).

#include <filesystem>
#include <map>
#include <optional>

#include "bench/bench.hpp"
#include "bench/bench_cluster.hpp"
#include "bench/shaped_cluster.hpp"
#include "bench/shaped_hosts.hpp"
#include "millrace/print.hpp"
#include "models/bundle_store.hpp"
#include "models/chunks.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

struct chain_bench_options {
  std::string models = "build/quickstart/bundles";
  std::string model = "bert-base";
  std::string script = "tests/bench/shaped_hosts";
  std::vector<size_t> receivers{1, 2, 4, 8};
  uint64_t mbit = 400;
  int rounds = 3;
  bool skip_unicast = false;
};

constexpr auto chain_patience = 300s;

/// A source of a model, and hosts without any model.
class travellers {
public:
  static result<std::unique_ptr<travellers>>
  start(const chain_bench_options& x, const std::string& bundles,
        const std::string& folder, uint64_t bytes, size_t receivers,
        bulk_topology topology) {
    auto nothing = folder + "/nothing";
    std::error_code failed;
    std::filesystem::create_directories(nothing, failed);
    std::vector<shaped_node> nodes{
      {"controller, worker", bundles, "{type: emulated, kind: source}"}};
    nodes.resize(receivers + 1,
                 {"worker", nothing, "{type: emulated, kind: sink}"});
    auto hosts =
      shaped_cluster::start(folder, nodes,
                            "bulk: {encrypt: false, topology: "
                              + std::string{to_string(topology)} + "}\n");
    if (!hosts)
      return hosts.failure();
    std::unique_ptr<travellers> out{new travellers};
    out->hosts_ = std::move(*hosts);
    out->model_ = x.model;
    out->bytes_ = bytes;
    return out;
  }

  /// The time from the decision (which a new controller takes late) until all
  /// hosts had all verified bytes of the model.
  struct outcome {
    double seconds = 0;
    double relay_cost = 0; ///< processor seconds per byte of a host that
                           ///< receives and sends the model
  };

  /// With `one_dies`, a middle relay is killed when it has half of the bytes.
  result<outcome> give(bool one_dies) {
    model_settings wanted;
    wanted.model = model_;
    wanted.replicas = receivers();
    wanted.device = "sink";
    auto& shell = hosts_->shell();
    auto used = receivers_seconds();
    auto ordered = shell.ask<ack>("./registry", set_model{wanted, false, {}});
    if (!ordered)
      return ordered.failure();
    for (auto until = steady_now() + chain_patience; steady_now() < until;
         shell.idle(5ms)) {
      if (one_dies && !dead_)
        kill_the_middle();
      if (!all_have_it())
        continue;
      if (one_dies && !dead_)
        return error{ec::unavailable,
                     "all had the model before a relay could be killed; see "
                       + hosts_->folder(),
                     {}};
      auto took = since_decision();
      if (!took)
        return took.failure();
      return outcome{*took, relay_cost(used)};
    }
    return error{ec::unavailable,
                 "not every host had the model after "
                   + format_duration(chain_patience) + "; see "
                   + hosts_->folder(),
                 {}};
  }

private:
  travellers() = default;

  /// The number of receiving hosts.
  size_t receivers() const { return hosts_->size() - 1; }

  void kill_the_middle() {
    auto list = hosts_->shell().ask<chain_list>("./chains", get_chains{}, 1s);
    if (!list || list->chains.empty())
      return;
    auto& hops = list->chains.front().hops;
    if (hops.size() < receivers())
      return;
    auto& victim = hops[hops.size() / 2];
    for (size_t host = 1; host <= receivers() && victim.chunks > 0; ++host)
      if (shaped_cluster::name_of(host) == victim.node
          && 2 * victim.missing <= victim.chunks) {
        hosts_->node(host).kill();
        dead_ = host;
      }
  }

  /// The mean over the receiving hosts. The last host of the chain sends
  /// nothing, so that the mean is too low for a chain of two, and hardly for
  /// longer chains.
  double relay_cost(double before) const {
    return (receivers_seconds() - before)
           / static_cast<double>(receivers() * bytes_);
  }

  /// The sum of the receiving hosts' processor time so far.
  double receivers_seconds() const {
    double out = 0;
    for (size_t host = 1; host <= receivers(); ++host)
      out += hosts_->node(host).processor_seconds();
    return out;
  }

  /// Seconds since the decision of the first start.
  result<double> since_decision() {
    auto list = hosts_->shell().ask<start_list>("./placement", get_starts{});
    if (!list)
      return list.failure();
    microseconds out{0};
    for (auto& x : list->starts)
      out = std::max(out, x.ago);
    return to_seconds(out);
  }

  bool all_have_it() {
    auto& shell = hosts_->shell();
    std::vector<uint64_t> ids;
    for (size_t host = 1; host <= receivers(); ++host)
      if (host != dead_)
        ids.push_back(
          shell.send(shaped_cluster::name_of(host) + "/cache", get_cache{}));
    auto answers = shell.wait(ids, 1s);
    size_t have = 0;
    for (auto& [id, answer] : answers)
      if (auto x = shell.read<cache_status>(answer))
        for (auto& y : x->bundles)
          have += y.model == model_ && y.state == cache_place::memory;
    return have == ids.size();
  }

  std::unique_ptr<shaped_cluster> hosts_;
  std::string model_;
  uint64_t bytes_ = 0;
  std::optional<size_t> dead_; ///< the killed host
};

class chain_bench {
public:
  chain_bench(const chain_bench_options& x, std::string bundles,
              progress_bar& bar)
    : options_(x),
      bundles_(std::move(bundles)),
      bar_(bar) {}

  result<bench_report> run() {
    auto model = bundle_store{bundles_}.open(options_.model, "", verify::sizes);
    if (!model)
      return model.failure();
    if (model->info.format < 2)
      return error{ec::bad_config,
                   options_.model
                     + ": the bundle has format 1, which hosts cannot exchange;"
                       " import the model again",
                   {}};
    bytes_ = model->info.weights.bytes;
    auto most =
      *std::max_element(options_.receivers.begin(), options_.receivers.end());
    // The floor needs two hosts besides the source.
    auto hosts = shaped_hosts::make(
      options_.script, std::max<size_t>(most, 2) + 1, options_.mbit);
    if (!hosts)
      return hosts.failure();
    bench_report out{"chain", {}};
    std::map<size_t, figures> all;
    auto steps = options_.rounds * static_cast<int>(options_.receivers.size());
    int step = 0;
    for (int round = 0; round < options_.rounds; ++round)
      for (auto n : options_.receivers) {
        bar_.show(1.0 * step++ / steps, std::to_string(n) + " receivers");
        auto& its =
          all.try_emplace(n, options_.model + " to " + std::to_string(n) + ",")
            .first->second;
        if (auto done = run_one(n, its); !done)
          return done.failure();
      }
    for (auto& [n, x] : all)
      x.append_to(out);
    return out;
  }

private:
  result<void> run_one(size_t n, figures& out) {
    auto rate = plain_rate(std::min<uint64_t>(bytes_, 64u << 20));
    if (!rate)
      return rate.failure();
    auto once = static_cast<double>(bytes_) / *rate;
    auto hop = static_cast<double>(chunk_bytes) / *rate;
    auto ideal = once + static_cast<double>(n - 1) * hop;
    constexpr auto ideal_name = "S/B + (N-1)c/B";
    auto chained = give(n, bulk_topology::chain, false);
    if (!chained)
      return chained.failure();
    out.add("in a chain", "s", chained->seconds, ideal, ideal_name);
    if (n == 1)
      return {};
    auto spliced = plain_relay_cost(std::min<uint64_t>(bytes_, 64u << 20));
    if (!spliced)
      return spliced.failure();
    out.add("processor time of a host", "s/GB", 1e9 * chained->relay_cost,
            1e9 * *spliced, "a bare relay by splice(2)");
    if (n > 2) {
      auto broken = give(n, bulk_topology::chain, true);
      if (!broken)
        return broken.failure();
      out.add("with one killed half-way", "s", broken->seconds, ideal,
              ideal_name);
    }
    if (options_.skip_unicast)
      return {};
    auto unicast = give(n, bulk_topology::unicast, false);
    if (!unicast)
      return unicast.failure();
    out.add("each from the source", "s", unicast->seconds, chained->seconds,
            "in a chain");
    return {};
  }

  result<travellers::outcome> give(size_t n, bulk_topology topology,
                                   bool one_dies) {
    auto folder = folder_ / ("run" + std::to_string(++runs_));
    auto hosts =
      travellers::start(options_, bundles_, folder, bytes_, n, topology);
    return hosts ? (*hosts)->give(one_dies) : hosts.failure();
  }

  chain_bench_options options_;
  std::string bundles_;
  progress_bar& bar_;
  scratch_folder folder_;
  uint64_t bytes_ = 0;
  int runs_ = 0;
};

int run_chain(const chain_bench_options& x, const common_options& common) {
  auto bundles =
    bundles_with(x.models, {x.model}, "tools/example-models " + x.model);
  if (!bundles)
    return fail(common, bundles.failure());
  return report_on("chain", common, [&](progress_bar& bar) {
    return chain_bench{x, *bundles, bar}.run();
  });
}

} // namespace

void add_chain_bench(CLI::App& bench, common_options& common,
                     verb_action& run) {
  auto x = std::make_shared<chain_bench_options>();
  auto* verb =
    add_subverb(bench, "chain",
                "The time to send a model to hosts, over links of known speed",
                common, run, [x, &common] { return run_chain(*x, common); });
  verb->add_option("--models", x->models, "Bundles: the one of --model")
    ->capture_default_str();
  verb->add_option("--model", x->model, "Name of the model")
    ->capture_default_str();
  verb->add_option("--receivers", x->receivers, "Number of receiving hosts")
    ->delimiter(',')
    ->capture_default_str();
  verb
    ->add_option("--mbit", x->mbit,
                 "Speed of a link in each direction, in Mbit/s")
    ->transform(whole_number(1, 100'000))
    ->capture_default_str();
  verb->add_option("--rounds", x->rounds, "Interleaved rounds")
    ->transform(whole_number(1, 1'000))
    ->capture_default_str();
  verb->add_flag("--skip-unicast", x->skip_unicast,
                 "Do not measure sending from the source to each host");
  verb->add_option("--script", x->script, "Script that makes the hosts")
    ->capture_default_str();
}

} // namespace millrace
