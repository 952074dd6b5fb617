// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "runtime/hash.hpp"
#include "tests/support/live_cluster.hpp"

/// \file
/// The transfer of a model to three hosts over a real network, with faults of
/// one host or of the network.

using namespace millrace;
using namespace millrace::test;

namespace {

const std::vector<std::string> receivers{"h1", "h2", "h3"};

constexpr auto model = "ballast"; // 32 MiB of weights
constexpr uint64_t early = 4;     // chunks, of 33

/// SHA-256 of the weights in the memory of a process; empty: no weights.
std::string weights_of(pid_t process) {
  auto folder = "/proc/" + std::to_string(process) + "/fd";
  std::error_code gone;
  for (auto& x : std::filesystem::directory_iterator{folder, gone}) {
    auto name = std::filesystem::read_symlink(x.path(), gone).string();
    if (name.find("memfd:millrace-weights") == std::string::npos)
      continue;
    if (auto file = map_file(x.path().string()))
      return sha256_hex(file->content.view());
  }
  return {};
}

class spread_chain {
public:
  spread_chain() {
    if (!network.problem().empty()) // P22: a skipped test must not pass
      FAIL("this needs network namespaces: " << network.problem());
    auto source = map_file(bundles + "/" + model + "/1/weights.safetensors");
    REQUIRE(source);
    hash_ = sha256_hex(source->content.view());
    std::map<std::string, std::string> nodes{
      {"ctl", "    roles: [controller]\n"},
      {"src", "    roles: [worker]\n"
              "    devices: [{type: emulated, kind: source}]\n"}};
    for (auto& node : receivers) // one replica fits per device
      nodes[node] =
        "    roles: [worker]\n    models: " + nothing_.path()
        + "\n    devices: [{type: emulated, kind: sink, memory: 40MiB}]\n";
    cluster.emplace(nodes,
                    std::string{"  - {model: "} + model
                      + ", replicas: 0, device: sink}\n",
                    bundles,
                    "keys: keys\nlink: {timeout: 1s}\n"
                    "bulk: {encrypt: false, rate: 10MB/s}\n",
                    &network);
    cluster->new_keys({"ctl", "--role", "controller"});
    cluster->new_keys({"src", "h1", "h2", "h3", "--role", "node"});
    cluster->new_keys({"ops", "--role", "operator"});
    cluster->use_key(cluster->key("ops"), cluster->key("ops"));
    cluster->start_all();
    control_.emplace(cluster->connect_operator("ctl"));
    auto& control = *control_;
    REQUIRE(eventually(
      [&] {
        auto list = control.ask<member_list>("./supervisor", get_members{});
        return list && list->peers.size() == receivers.size() + 1;
      },
      20s));
    auto known = control.ask<model_list>("./registry", get_models{});
    REQUIRE(known);
    auto settings = known->models.at(0).settings;
    settings.replicas = receivers.size();
    REQUIRE(control.ask<ack>("./registry", set_model{settings, false, {}}));
  }

  /// Number of chunks of the model that a node in a chain has received.
  uint64_t chunks_there(const std::string& node) {
    auto x = control_->ask<chain_list>("./chains", get_chains{}, 500ms);
    if (x)
      for (auto& chain : x->chains)
        for (auto& hop : chain.hops)
          if (hop.node == node)
            return hop.chunks - hop.missing;
    return 0;
  }

  /// Waits until a host has some chunks of the model but not all.
  void wait_for_some(const std::string& node) {
    REQUIRE(eventually([&] { return chunks_there(node) >= early; }, 30s));
    REQUIRE(weights_of((*cluster)[node].pid()) != hash_);
  }

  bool has_all(const std::string& node) {
    return eventually(
      [&] { return weights_of((*cluster)[node].pid()) == hash_; }, 40s);
  }

  void check_has_all(const std::string& node) {
    auto all = has_all(node);
    CHECK_MESSAGE(all, node << ":\n"
                            << cluster->log_of(node) << "ctl:\n"
                            << cluster->log_of("ctl"));
  }

  void check_all() {
    for (auto& node : receivers)
      check_has_all(node);
    CHECK(cluster->wait_ready());
  }

  void check_all_but(const std::string& victim) {
    for (auto& node : receivers)
      if (node != victim)
        check_has_all(node);
  }

  bad_network network{{"ctl", "src", "h1", "h2", "h3"}};
  std::optional<live_cluster> cluster;

private:
  temporary_directory nothing_;
  std::optional<operator_client> control_;
  std::string hash_;
};

const network_faults cut{.lost = 1};

} // namespace

TEST_CASE("P7: a chain continues without a host killed half-way and the host"
          " gets the model after its restart") {
  spread_chain x;
  x.wait_for_some("h2");
  (*x.cluster)["h2"].end(SIGKILL);
  x.check_all_but("h2");
  x.cluster->start("h2");
  x.check_all();
}

TEST_CASE("P7: a chain continues without a host paused half-way and the host"
          " continues when it resumes") {
  spread_chain x;
  x.wait_for_some("h2");
  (*x.cluster)["h2"].signal(SIGSTOP);
  x.check_all_but("h2");
  (*x.cluster)["h2"].signal(SIGCONT);
  x.check_all();
}

TEST_CASE("P7: a chain continues without a host cut off half-way and the host"
          " gets the rest when the network returns") {
  spread_chain x;
  x.wait_for_some("h2");
  x.network.into("h2", cut);
  x.network.out_of("h2", cut);
  x.check_all_but("h2");
  x.network.heal();
  x.check_all();
}

TEST_CASE("P7: all hosts get every byte over a network that loses one packet in"
          " twenty") {
  spread_chain x;
  x.wait_for_some("h1");
  x.network.all({.lost = .05});
  x.check_all();
}

TEST_CASE("P8: no changed byte gets into a model over a network that changes"
          " packets") {
  spread_chain x;
  x.wait_for_some("h1");
  x.network.all({.damaged = .02});
  x.check_all();
}
