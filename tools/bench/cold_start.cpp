// SPDX-License-Identifier: Apache-2.0

/// \file
/// `millrace-bench coldstart`: the time from the order of a replica to its
/// first answer, by the place of the bytes. The floor is a bare program that
/// loads and runs the same file.

#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/bench.hpp"
#include "bench/shaped_cluster.hpp"
#include "bench/shaped_hosts.hpp"
#include "bench/starts_by_order.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "models/bundle_store.hpp"
#include "models/partition/cuts.hpp"
#include "runtime/program_folder.hpp"

namespace millrace {

namespace {

struct cold_start_options : served_options {
  std::string model = "bert-base";
  std::string file;  ///< empty: the file of tools/example-models
  size_t parts = 0;  ///< 0: no run in stages
  uint64_t mbit = 0; ///< 0: no run over a network
  std::string script = "tests/bench/shaped_hosts";
};

constexpr auto bare_name = "a program that loads and runs it twice";

/// The times of a bare program, in seconds.
struct bare_run {
  double load = 0;
  double first = 0;
  double second = 0;
  double all() const { return load + first + second; }
};

result<bare_run> run_bare(const std::string& file, const signature& s) {
  auto program = program_folder() + "/load_twice";
  if (!std::filesystem::exists(program))
    return error{ec::unavailable,
                 program
                   + ": there is no such program; it is built where the"
                     " tests are",
                 {}};
  auto& input = s.inputs.at(0);
  // OpenBLAS reads the number of its threads when it is loaded.
  std::vector<std::string> arguments{"OPENBLAS_NUM_THREADS=1", program, file,
                                     "1", std::string{to_string(input.type)}};
  for (auto n : with_rows(s, input, 1))
    arguments.push_back(std::to_string(n));
  std::istringstream in{child{arguments, "env"}.wait()};
  bare_run out;
  if (!(in >> out.load >> out.first >> out.second))
    return error{ec::unavailable, file + ": cannot be loaded and run", {}};
  return out;
}

/// The files of a bundle; once read, the files are in the page cache.
class bundle_files {
public:
  explicit bundle_files(const std::string& folder) {
    std::error_code failed;
    for (auto& x :
         std::filesystem::recursive_directory_iterator{folder, failed})
      if (x.is_regular_file())
        paths_.push_back(x.path());
  }

  /// Reads all files, and discards the bytes.
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

/// Work that a start postpones is done within this time, or was dropped at the
/// end of the replica; so it does not slow the next start.
constexpr auto until_quiet = 1s;

/// Waits until all workers have joined the cluster. Errors: unavailable.
result<void> meet(cluster_by_order& x, size_t workers) {
  for (auto until = steady_now() + 30s; steady_now() < until;
       x.shell().idle(10ms)) {
    auto members = x.shell().ask<member_list>("./supervisor", get_members{});
    if (members && members->peers.size() == workers)
      return {};
  }
  return error{ec::unavailable, "the nodes did not meet", {}};
}

/// The longest time, in seconds, of a step over the cluster's replicas.
result<double> slowest(cluster_by_order& in,
                       microseconds replica_status::*step) {
  microseconds most{0};
  for (auto& worker : in.nodes().workers()) {
    auto x = in.shell().ask<node_status>(worker + "/supervisor", get_status{});
    if (!x)
      return x.failure();
    for (auto& r : x->replicas)
      most = std::max(most, r.*step);
  }
  return to_seconds(most);
}

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
    model_ = model->info;
    if (options_.parts > 0)
      if (auto fine =
            check_cuts({options_.parts, {}, {}, 1}, model->info.layers.size());
          !fine)
        return std::move(fine.failure()).within(options_.model);
    std::unique_ptr<shaped_hosts> hosts;
    if (options_.mbit > 0) {
      auto made = shaped_hosts::make(options_.script, 3, options_.mbit);
      if (!made)
        return made.failure();
      hosts = std::move(*made);
    }
    figures all{options_.model + " " + shape_text() + ","};
    for (round_ = 0; round_ < options_.rounds; ++round_)
      if (auto done = run_round(all); !done)
        return done.failure();
    bench_report out{"coldstart", {}};
    all.append_to(out);
    return out;
  }

private:
  /// The shape of the input.
  std::string shape_text() const {
    return "["
           + joined(
             with_rows(model_.signature, model_.signature.inputs.at(0), 1),
             ", ", [](auto n) { return std::to_string(n); })
           + "]";
  }

  void show(const std::string& what) {
    bar_.show(1.0 * round_ / options_.rounds, what);
  }

  std::string new_folder(const std::string& name) const {
    return folder_ / (name + std::to_string(round_));
  }

  result<void> run_round(figures& all) {
    show("a bare program");
    auto bare = run_bare(options_.file, model_.signature);
    if (!bare)
      return bare.failure();
    for (auto where : {isolation_mode::thread, isolation_mode::process})
      if (auto done = run_here(where, *bare, all); !done)
        return done;
    if (options_.mbit > 0)
      if (auto done = run_far(*bare, all); !done)
        return done;
    return options_.parts > 0 ? run_parts(all) : result<void>{};
  }

  result<cluster_by_order> start(const std::string& name, size_t parts,
                                 size_t workers, isolation_mode where) {
    auto out = cluster_by_order::start(
      {new_folder(name),
       bundles_,
       {"{model: " + options_.model + ", replicas: 0, parts: "
        + std::to_string(parts) + ", policy: {batch: 1}}"},
       workers,
       recording::off,
       where},
      model_);
    if (out)
      if (auto met = meet(*out, workers); !met)
        return met.failure();
    return out;
  }

  /// Starts on this host, with the bytes on the disk, then in memory.
  result<void> run_here(isolation_mode where, const bare_run& bare,
                        figures& all) {
    auto how = std::string{to_string(where)};
    show("here, in a " + how);
    auto read = files_.seconds_to_read();
    auto node = start(how, 1, 0, where);
    if (!node)
      return node.failure();
    auto& model = node->model();
    for (std::string place : {"the disk", "memory"}) {
      auto took = model.load();
      if (!took)
        return took.failure();
      auto steps = model.latest();
      if (!steps)
        return steps.failure();
      if (auto done = model.unload(); !done)
        return done;
      node->shell().idle(until_quiet);
      auto name = "in a " + how + ", from " + place + ": ";
      all.add(name + "first answer", "s", took->first_answer, bare.all(),
              bare_name);
      all.add(name + "until it can run", "s",
              to_seconds(steps->ready - steps->how.warm_up), bare.load,
              "it loads it");
      all.add(name + "its bytes", "s", to_seconds(steps->how.fetch), read,
              "reading its files");
      all.add(name + "to load it", "s", to_seconds(steps->how.load), bare.load,
              "it loads it");
    }
    return {};
  }

  /// Starts with the bytes on another host, then in an object store, over a
  /// link of known speed.
  result<void> run_far(const bare_run& bare, figures& all) {
    auto rate = plain_rate(std::min<uint64_t>(model_.weights.bytes, 64u << 20));
    if (!rate)
      return rate.failure();
    auto ideal = static_cast<double>(model_.weights.bytes) / *rate + bare.first;
    constexpr auto ideal_name = "S/B + its first run";
    auto other = run_from_host();
    if (!other)
      return other.failure();
    all.add("from another host: first answer", "s", *other, ideal, ideal_name);
    auto store = run_from_store();
    if (!store)
      return store.failure();
    all.add("from an object store: first answer", "s", *store, ideal,
            ideal_name);
    return {};
  }

  result<double> run_from_host() {
    show("from another host");
    auto folder = new_folder("host");
    return far_start(
      folder,
      {{"gateway, controller, worker", bundles_,
        "{type: emulated, kind: source}"},
       {"worker", nothing(folder), "{type: cpu, isolation: thread}"}},
      "bulk: {encrypt: false}\n");
  }

  result<double> run_from_store() {
    show("from an object store");
    auto folder = new_folder("store");
    auto zoo = folder + "/zoo";
    std::error_code failed;
    std::filesystem::create_directories(zoo, failed);
    std::filesystem::create_directory_symlink(
      bundles_ + "/" + options_.model, zoo + "/" + options_.model, failed);
    child{{"model", "index", "--store", zoo}}.wait();
    auto address = address_of(2) + ":7280";
    service web{{"httpd", "-f", "-p", address, "-h", zoo},
                folder + "/web.log",
                space_of(2),
                "busybox"};
    return far_start(
      folder,
      {{"gateway, controller", nothing(folder), ""},
       {"worker", nothing(folder), "{type: cpu, isolation: thread}"}},
      "object_stores: {zoo: {url: 'http://" + address
        + "', own_network: true}}\n");
  }

  static std::string nothing(const std::string& folder) {
    auto out = folder + "/nothing";
    std::error_code failed;
    std::filesystem::create_directories(out, failed);
    return out;
  }

  /// Seconds until the first answer of a model that the host never had.
  result<double> far_start(const std::string& folder,
                           const std::vector<shaped_node>& nodes,
                           const std::string& more) {
    auto hosts =
      shaped_cluster::start(folder, nodes,
                            more + "models:\n  - {model: " + options_.model
                              + ", replicas: 0, device: cpu, policy: {batch: "
                                "1}}\n");
    if (!hosts)
      return hosts.failure();
    auto gateway = (*hosts)->connect();
    if (!gateway)
      return gateway.failure();
    starts_by_order model{model_, *gateway, (*hosts)->shell()};
    auto took = model.load();
    return took ? result<double>{took->first_answer} : took.failure();
  }

  /// A model in stages, compared with a whole replica.
  result<void> run_parts(figures& all) {
    auto n = std::to_string(options_.parts);
    show("in " + n + " parts");
    auto whole = measured("whole", 1);
    if (!whole)
      return whole.failure();
    auto parts = measured("parts", options_.parts);
    if (!parts)
      return parts.failure();
    auto name = n + " parts: ";
    constexpr auto floor = "whole on one node";
    all.add(name + "ready", "s", parts->all.ready, whole->all.ready, floor);
    all.add(name + "first answer", "s", parts->all.first_answer,
            whole->all.first_answer, floor);
    all.add(name + "to load the largest part", "s", parts->load, whole->load,
            floor);
    all.add(name + "to warm it up", "s", parts->warm, whole->warm, floor);
    return {};
  }

  struct one_start {
    starts_by_order::seconds all;
    double load = 0;
    double warm = 0;
  };

  result<one_start> measured(const std::string& name, size_t parts) {
    auto nodes = start(name, parts, parts, isolation_mode::thread);
    if (!nodes)
      return nodes.failure();
    auto all = nodes->model().load();
    if (!all)
      return all.failure();
    auto load = slowest(*nodes, &replica_status::load);
    auto warm = slowest(*nodes, &replica_status::warm_up);
    if (!load || !warm)
      return load ? warm.failure() : load.failure();
    return one_start{*all, *load, *warm};
  }

  cold_start_options options_;
  std::string bundles_;
  bundle_files files_;
  progress_bar& bar_;
  scratch_folder folder_;
  manifest model_;
  int round_ = 0;
};

int run_cold_start(cold_start_options x, const common_options& common) {
  if (x.file.empty())
    x.file = "build/examples/" + x.model + ".pt";
  std::error_code failed;
  if (!std::filesystem::is_regular_file(x.file, failed))
    return fail(common,
                error{ec::bad_request,
                      "--file " + x.file + ": there is no such file, which "
                        + x.model + " was imported from",
                      {}});
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
    "Time to the first answer of a new replica, by the place of its bytes",
    common, run, [x, &common] { return run_cold_start(*x, common); });
  add_served_options(*verb, *x, "the one of --model");
  verb->add_option("--model", x->model, "Name of the model")
    ->capture_default_str();
  verb->add_option("--file", x->file,
                   "TorchScript file of the model; default:"
                   " build/examples/MODEL.pt");
  verb
    ->add_option("--mbit", x->mbit,
                 "Also from another host and an object store, over links of "
                 "this speed in Mbit/s (needs root)")
    ->transform(whole_number(1, 100'000));
  verb
    ->add_option("--parts", x->parts,
                 "Also in this number of stages, each on a node")
    ->transform(whole_number(2, 16));
  verb->add_option("--script", x->script, "Script that makes the hosts")
    ->capture_default_str();
}

} // namespace millrace
