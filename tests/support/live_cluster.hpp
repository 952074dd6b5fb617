// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <map>
#include <string>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include "client/client.hpp"
#include "client/operator_client.hpp"
#include "tests/support/bad_network.hpp"
#include "tests/support/campaign.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_directory.hpp"

namespace millrace::test {

/// The bundles that fixture.bundles makes.
inline const std::string bundles = TEST_BUNDLES;

/// Nodes for a cluster: every role in a process of its own, and two workers.
inline std::map<std::string, std::string>
apart(const std::string& worker = "    roles: [worker]\n") {
  return {{"ctl", "    roles: [controller]\n"},
          {"gw", "    roles: [gateway]\n"},
          {"w1", worker},
          {"w2", worker}};
}

/// A request of one input.
inline infer ask(const std::string& model, const tensor& x) {
  infer out;
  out.model = model;
  out.inputs.push_back({"", x});
  return out;
}

/// Real nodes, a process each, that talk over Unix sockets in a folder of
/// their own; with a network, over that, each from its own host, and only who
/// asks them comes by Unix sockets.
class live_cluster {
public:
  /// Nodes by name with their YAML (roles, devices); `models` is the list of
  /// models as YAML, `more` what else the config says.
  live_cluster(std::map<std::string, std::string> nodes,
               const std::string& models, const std::string& bundles,
               const std::string& more = "",
               const bad_network* network = nullptr);

  /// The files of the keys this connects with, where the config has keys.
  void use_key(const std::string& operator_key, const std::string& client_key) {
    operator_key_ = operator_key;
    client_key_ = client_key;
  }

  /// Makes keys as `millrace keys new FOLDER ...` does, in the folder "keys".
  void new_keys(std::vector<std::string> words);
  std::string key(const std::string& name) const {
    return folder() + "/keys/" + name + ".key";
  }

  void start(const std::string& node);
  void start_all();
  process& operator[](const std::string& node) { return processes_.at(node); }

  /// Waits until the registry says that all wanted replicas are ready.
  bool wait_ready(microseconds longest = 30s);

  /// Waits until a status of a node satisfies f.
  template <class F>
  bool wait_status(const std::string& node, F f, microseconds longest = 20s);

  client connect_client();

  /// Starts all; returns a client that sees so many models.
  client start_and_meet(size_t models = 1);

  operator_client connect_operator(const std::string& node);
  std::string endpoint(const std::string& node, const std::string& what) const;
  std::string log_of(const std::string& node) const;
  /// How often its log has that.
  size_t logged(const std::string& node, const std::string& what) const;
  const std::string& folder() const { return folder_.path(); }
  const std::string& config() const { return config_; }

private:
  const bad_network* network_;
  temporary_directory folder_;
  std::string config_;
  std::string gateway_;
  std::string controller_;
  std::string operator_key_;
  std::string client_key_;
  std::map<std::string, process> processes_;
};

/// Lets this process have as many open files as the system allows.
inline void raise_file_limit() {
  rlimit mine{};
  ::getrlimit(RLIMIT_NOFILE, &mine);
  mine.rlim_cur = mine.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &mine);
  REQUIRE(mine.rlim_cur >= 8000);
}

template <class F>
bool live_cluster::wait_status(const std::string& node, F f,
                               microseconds longest) {
  return eventually(
    [&] {
      auto cluster = operator_client::connect(endpoint(node, "operators"),
                                              100ms, operator_key_);
      if (!cluster)
        return false;
      auto status =
        cluster->ask<node_status>("./supervisor", get_status{}, 500ms);
      return status && f(*status);
    },
    longest);
}

} // namespace millrace::test
