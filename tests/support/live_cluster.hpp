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

/// Nodes of a cluster with one process per role and two workers.
inline std::map<std::string, std::string>
apart(const std::string& worker = "    roles: [worker]\n") {
  return {{"ctl", "    roles: [controller]\n"},
          {"gw", "    roles: [gateway]\n"},
          {"w1", worker},
          {"w2", worker}};
}

/// A request with one input.
inline infer ask(const std::string& model, const tensor& x) {
  infer out;
  out.model = model;
  out.inputs.push_back({"", x});
  return out;
}

/// Real nodes with one process each, which communicate over Unix sockets in a
/// separate folder. With a network, each node has its own host and uses the
/// network, and only clients and operators use Unix sockets.
class live_cluster {
public:
  /// `nodes`: YAML of each node (roles, devices) by name. `models`: list of
  /// models as YAML. `more`: the rest of the config.
  live_cluster(std::map<std::string, std::string> nodes,
               const std::string& models, const std::string& bundles,
               const std::string& more = "",
               const bad_network* network = nullptr);

  /// Sets the key files for connections, if the config has keys.
  void use_key(const std::string& operator_key, const std::string& client_key) {
    operator_key_ = operator_key;
    client_key_ = client_key;
  }

  /// Makes keys in the folder "keys" as `millrace keys new FOLDER ...` does.
  void new_keys(std::vector<std::string> words);
  std::string key(const std::string& name) const {
    return folder() + "/keys/" + name + ".key";
  }

  void start(const std::string& node);
  void start_all();
  process& operator[](const std::string& node) { return processes_.at(node); }

  /// Waits until the registry lists all wanted replicas as ready.
  bool wait_ready(microseconds longest = 30s);

  /// Waits until a status of a node satisfies f.
  template <class F>
  bool wait_status(const std::string& node, F f, microseconds longest = 20s);

  client connect_client();

  /// Starts all nodes and returns a client when this many models are listed.
  client start_and_meet(size_t models = 1);

  operator_client connect_operator(const std::string& node);
  std::string endpoint(const std::string& node, const std::string& what) const;
  std::string log_of(const std::string& node) const;
  /// Number of log lines of a node with this text.
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

/// Raises the limit of open files of this process to the maximum.
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
