// SPDX-License-Identifier: Apache-2.0
#include "tests/support/live_cluster.hpp"

#include <doctest/doctest.h>

#include "runtime/bytes.hpp"

namespace millrace::test {

live_cluster::live_cluster(std::map<std::string, std::string> nodes,
                           const std::string& models,
                           const std::string& bundles, const std::string& more,
                           const bad_network* network)
  : network_(network),
    config_(folder_ / "cluster.yaml") {
  std::string text = "cluster: test\n" + more + "seeds: ["
                     + endpoint(nodes.begin()->first, "peers") + "]\nnodes:\n";
  for (auto& [name, body] : nodes) {
    text += "  " + name + ":\n    peers: " + endpoint(name, "peers")
            + "\n    operators: " + endpoint(name, "operators")
            + "\n    data: data/" + name + "\n";
    // A default host would share its memory with the nodes of other tests.
    if (body.find("host:") == std::string::npos)
      text += "    host: "
              + (network != nullptr
                   ? name
                   : folder_.path().substr(folder_.path().rfind('/') + 1))
              + "\n";
    if (body.find("models:") == std::string::npos)
      text += "    models: " + bundles + "\n";
    if (body.find("gateway") != std::string::npos) {
      gateway_ = name;
      text += "    clients: " + endpoint(name, "clients") + "\n";
    }
    if (body.find("controller") != std::string::npos)
      controller_ = name;
    text += body;
    processes_[name];
  }
  text += "models:\n" + models;
  REQUIRE(write_file(config_, std::as_bytes(std::span{text})));
}

std::string live_cluster::endpoint(const std::string& node,
                                   const std::string& what) const {
  if (network_ != nullptr && what == "peers")
    return "tcp://" + network_->address(node) + ":7200";
  return "ipc://" + folder_.path() + "/" + node + "." + what;
}

void live_cluster::new_keys(std::vector<std::string> words) {
  words.insert(words.begin(),
               {MILLRACE_PROGRAM, "keys", "new", folder() + "/keys"});
  process p{words, folder_ / "keys.log"};
  REQUIRE(p.wait() == 0);
}

void live_cluster::start(const std::string& node) {
  std::vector<std::string> command;
  if (network_ != nullptr)
    command = network_->enter(node);
  for (auto& word :
       {std::string{MILLRACE_PROGRAM}, std::string{"node"},
        std::string{"--config"}, config_, std::string{"--node"}, node})
    command.push_back(word);
  processes_[node] = process{command, folder_ / (node + ".log")};
}

void live_cluster::start_all() {
  for (auto& [name, p] : processes_)
    start(name);
}

bool live_cluster::wait_ready(microseconds longest) {
  return eventually(
    [&] {
      auto cluster = operator_client::connect(
        endpoint(controller_, "operators"), 100ms, operator_key_);
      if (!cluster)
        return false;
      auto list = cluster->ask<model_list>("./registry", get_models{}, 500ms);
      if (!list || list->models.empty())
        return false;
      return std::all_of(list->models.begin(), list->models.end(),
                         [](auto& m) { return m.ready == m.wanted; });
    },
    longest);
}

client live_cluster::connect_client() {
  auto x = client::connect(endpoint(gateway_, "clients"), 5s, client_key_);
  REQUIRE(x);
  return std::move(*x);
}

client live_cluster::start_and_meet(size_t models) {
  start_all();
  REQUIRE(wait_ready());
  auto out = connect_client();
  REQUIRE(eventually([&] { return out.models()->size() == models; }, 5s));
  return out;
}

operator_client live_cluster::connect_operator(const std::string& node) {
  auto x =
    operator_client::connect(endpoint(node, "operators"), 2s, operator_key_);
  REQUIRE(x);
  return std::move(*x);
}

size_t live_cluster::logged(const std::string& node,
                            const std::string& what) const {
  auto text = log_of(node);
  size_t n = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at)
    ++n;
  return n;
}

std::string live_cluster::log_of(const std::string& node) const {
  auto text = read_file(folder_ / (node + ".log"), 16u << 20);
  return text ? *text : text.failure().text;
}

} // namespace millrace::test
