// SPDX-License-Identifier: Apache-2.0

/// \file
/// `bench chain`: how long it takes until so many hosts have a model, over
/// links of a known speed (tests/bench/shaped_hosts).

#include <cstdlib>
#include <filesystem>
#include <map>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/operator_client.hpp"
#include "millrace/bench/bench.hpp"
#include "millrace/bench/bench_cluster.hpp"
#include "millrace/child.hpp"
#include "millrace/print.hpp"
#include "models/bundle_store.hpp"
#include "models/chunks.hpp"
#include "runtime/bytes.hpp"
#include "runtime/file_descriptor.hpp"
#include "transport/keys/key_file.hpp"
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
};

constexpr auto chain_patience = 300s;

std::string space_of(size_t host) {
  return "/run/netns/mrb" + std::to_string(host);
}

std::string address_of(size_t host) {
  return "10.77.0." + std::to_string(host + 1);
}

/// Runs a function in a process of its own, on another host; its end is 0 when
/// that returns true.
pid_t on_host(size_t host, const std::function<bool()>& f) {
  auto pid = ::fork();
  if (pid != 0)
    return pid;
  file_descriptor space{::open(space_of(host).c_str(), O_RDONLY | O_CLOEXEC)};
  ::_exit(::setns(space.get(), CLONE_NEWNET) == 0 && f() ? 0 : 1);
}

bool has_ended_well(pid_t x) {
  int status = 0;
  return ::waitpid(x, &status, 0) == x && status == 0;
}

/// What a plain TCP connection carries from one host to another, in bytes a
/// second: the floor of everything here.
result<double> plain_rate(uint64_t bytes) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return error{ec::unavailable, "no pipe", {}};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(5001);
  ::inet_pton(AF_INET, address_of(1).c_str(), &to.sin_addr);
  auto* address = reinterpret_cast<sockaddr*>(&to);
  auto receiver = on_host(1, [&] {
    file_descriptor door{::socket(AF_INET, SOCK_STREAM, 0)};
    int yes = 1;
    ::setsockopt(door.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (::bind(door.get(), address, sizeof to) != 0
        || ::listen(door.get(), 1) != 0)
      return false;
    file_descriptor in{::accept(door.get(), nullptr, nullptr)};
    std::vector<char> part(1 << 20);
    auto begin = steady_now();
    uint64_t got = 0;
    for (ssize_t n = 0; (n = ::read(in.get(), part.data(), part.size())) > 0;)
      got += static_cast<uint64_t>(n);
    auto rate = static_cast<double>(got) / to_seconds(steady_now() - begin);
    return got == bytes && ::write(ends[1], &rate, sizeof rate) == sizeof rate;
  });
  auto sender = on_host(0, [&] {
    file_descriptor out{::socket(AF_INET, SOCK_STREAM, 0)};
    for (int i = 0; ::connect(out.get(), address, sizeof to) != 0; ++i)
      if (i == 100)
        return false;
      else
        ::poll(nullptr, 0, 10);
    std::vector<char> part(1 << 20, 'x');
    for (auto left = bytes; left > 0;) {
      auto n =
        ::write(out.get(), part.data(), std::min<uint64_t>(left, part.size()));
      if (n <= 0)
        return false;
      left -= static_cast<uint64_t>(n);
    }
    return true;
  });
  auto sent = has_ended_well(sender);
  auto got = has_ended_well(receiver);
  double rate = 0;
  auto read = sent && got ? ::read(ends[0], &rate, sizeof rate) : 0;
  ::close(ends[0]);
  ::close(ends[1]);
  if (read != sizeof rate)
    return error{ec::unavailable, "no plain connection between hosts", {}};
  return rate;
}

/// A source of a model and hosts that have nothing.
class travellers {
public:
  static result<std::unique_ptr<travellers>>
  start(const chain_bench_options& x, const std::string& bundles,
        const std::string& folder, size_t receivers, bulk_topology topology) {
    std::unique_ptr<travellers> out{new travellers};
    out->folder_ = folder;
    out->model_ = x.model;
    out->receivers_ = receivers;
    std::filesystem::create_directories(folder + "/nothing");
    auto config = folder + "/chain.yaml";
    auto text = config_of(bundles, folder, receivers, topology);
    if (auto done = write_file(config, std::as_bytes(std::span{text})); !done)
      return done.failure();
    if (auto made = out->make_keys(); !made)
      return made.failure();
    for (size_t host = 0; host <= receivers; ++host)
      out->nodes_.push_back(std::make_unique<service>(
        std::vector<std::string>{"node", "--config", config, "--node",
                                 name_of(host)},
        folder + "/" + name_of(host) + ".log", space_of(host)));
    auto shell = operator_client::connect("ipc://" + folder + "/operators", 30s,
                                          folder + "/keys/ops.key");
    if (!shell)
      return shell.failure();
    out->shell_ = std::make_unique<operator_client>(std::move(*shell));
    for (auto until = steady_now() + 30s; steady_now() < until;
         out->shell_->idle(20ms)) {
      auto members =
        out->shell_->ask<member_list>("./supervisor", get_members{});
      if (members && members->peers.size() == receivers)
        return out;
    }
    return error{ec::unavailable, "the hosts did not meet; see " + folder, {}};
  }

  /// Seconds until all of them have all of it, verified.
  result<double> give() {
    model_settings wanted;
    wanted.model = model_;
    wanted.replicas = receivers_;
    wanted.device = "sink";
    auto begin = steady_now();
    auto ordered =
      shell_->ask<done>("./registry", set_model{wanted, false, {}});
    if (!ordered)
      return ordered.failure();
    for (auto until = steady_now() + chain_patience; steady_now() < until;
         shell_->idle(5ms))
      if (all_have_it())
        return to_seconds(steady_now() - begin);
    return error{ec::unavailable,
                 "not every host had the model after "
                   + format_duration(chain_patience) + "; see " + folder_,
                 {}};
  }

private:
  travellers() = default;

  static std::string name_of(size_t host) { return "h" + std::to_string(host); }

  static std::string config_of(const std::string& bundles,
                               const std::string& folder, size_t receivers,
                               bulk_topology topology) {
    auto out = "cluster: chain\nlog: {level: warning}\nkeys: " + folder
               + "/keys\nbulk: {encrypt: false, topology: "
               + std::string{to_string(topology)} + "}\nseeds: [tcp://"
               + address_of(0) + ":7200]\nnodes:\n";
    for (size_t host = 0; host <= receivers; ++host) {
      auto source = host == 0;
      out += "  " + name_of(host) + ":\n    roles: ["
             + (source ? "controller, worker" : "worker")
             + "]\n    peers: tcp://" + address_of(host)
             + ":7200\n    data: " + folder + "/" + name_of(host)
             + "\n    models: " + (source ? bundles : folder + "/nothing")
             + "\n    devices: [{type: emulated, kind: "
             + (source ? "source" : "sink") + "}]\n";
      if (source)
        out += "    operators: ipc://" + folder + "/operators\n";
    }
    return out;
  }

  result<void> make_keys() {
    std::vector<std::string> nodes;
    for (size_t host = 0; host <= receivers_; ++host) {
      auto role = host == 0 ? "controller" : "node";
      child{{"keys", "new", folder_ + "/keys", name_of(host), "--role", role}}
        .wait();
    }
    child{{"keys", "new", folder_ + "/keys", "ops", "--role", "operator"}}
      .wait();
    return {};
  }

  bool all_have_it() {
    std::vector<uint64_t> ids;
    for (size_t host = 1; host <= receivers_; ++host)
      ids.push_back(shell_->send(name_of(host) + "/cache", get_cache{}));
    auto answers = shell_->wait(ids, 1s);
    size_t have = 0;
    for (auto& [id, answer] : answers)
      if (auto x = shell_->read<cache_status>(answer))
        for (auto& y : x->bundles)
          have += y.model == model_ && y.state == cache_place::memory;
    return have == receivers_;
  }

  std::string folder_;
  std::string model_;
  size_t receivers_ = 0;
  std::unique_ptr<operator_client> shell_;
  std::vector<std::unique_ptr<service>> nodes_;
};

class chain_bench {
public:
  chain_bench(const chain_bench_options& x, std::string bundles,
              progress_bar& bar)
    : options_(x),
      bundles_(std::move(bundles)),
      bar_(bar) {}

  ~chain_bench() { run_script("down"); }

  result<bench_report> run() {
    auto model = bundle_store{bundles_}.open(options_.model, "", verify::sizes);
    if (!model)
      return model.failure();
    bytes_ = model->info.weights.bytes;
    auto most =
      *std::max_element(options_.receivers.begin(), options_.receivers.end());
    if (!run_script("up " + std::to_string(most + 1) + " "
                    + std::to_string(options_.mbit)))
      return error{ec::unavailable,
                   options_.script
                     + " made no hosts: it needs root, and iproute2",
                   {}};
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
  bool run_script(const std::string& what) const {
    return std::system((options_.script + " " + what).c_str()) == 0;
  }

  result<void> run_one(size_t n, figures& out) {
    auto rate = plain_rate(std::min<uint64_t>(bytes_, 64u << 20));
    if (!rate)
      return rate.failure();
    auto once = static_cast<double>(bytes_) / *rate;
    auto hop = static_cast<double>(chunk_bytes) / *rate;
    auto ideal = once + static_cast<double>(n - 1) * hop;
    auto chained = seconds(n, bulk_topology::chain);
    if (!chained)
      return chained.failure();
    out.add("in a chain", "s", *chained, ideal, "S/B + (N-1)c/B");
    if (n == 1)
      return {};
    auto unicast = seconds(n, bulk_topology::unicast);
    if (!unicast)
      return unicast.failure();
    out.add("each from the source", "s", *unicast, *chained, "in a chain");
    return {};
  }

  result<double> seconds(size_t n, bulk_topology topology) {
    auto folder = folder_ / ("run" + std::to_string(++runs_));
    auto hosts = travellers::start(options_, bundles_, folder, n, topology);
    return hosts ? (*hosts)->give() : hosts.failure();
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
  auto* verb = add_subverb(
    bench, "chain",
    "Until hosts on links of a known speed have a model, from one that has it",
    common, run, [x, &common] { return run_chain(*x, common); });
  verb->add_option("--models", x->models, "Bundles: the one of --model")
    ->capture_default_str();
  verb->add_option("--model", x->model, "Which travels")->capture_default_str();
  verb->add_option("--receivers", x->receivers, "How many hosts get it")
    ->delimiter(',')
    ->capture_default_str();
  verb->add_option("--mbit", x->mbit, "What a link carries, each way")
    ->transform(whole_number(1, 100'000))
    ->capture_default_str();
  verb->add_option("--rounds", x->rounds, "Interleaved rounds")
    ->transform(whole_number(1, 1'000))
    ->capture_default_str();
  verb->add_option("--script", x->script, "Makes the hosts")
    ->capture_default_str();
}

} // namespace millrace
