// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "tests/support/builders.hpp"
#include "tests/support/live_cluster.hpp"
#include "transport/keys/key_file.hpp"

namespace millrace::test {

/// A cluster with one process per role and with keys: for its nodes, viewer
/// "eve", operator "ops", and clients "app" (tenant default) and "acme-app"
/// (tenant acme).
class guarded_cluster {
public:
  guarded_cluster()
    : cluster({{"ctl", "    roles: [controller]\n"},
               {"gw", "    roles: [gateway]\n    tenants: {acme: \""
                        + acme_endpoint() + "\"}\n"},
               {"w1", "    roles: [worker]\n"}},
              "  - {model: identity}\n"
              "  - {model: affine, tenants: [acme]}\n",
              bundles, "keys: keys\n") {
    keys({"new", "ctl", "--role", "controller"});
    keys({"new", "gw", "w1", "--role", "node"});
    keys({"new", "eve", "--role", "viewer"});
    keys({"new", "ops", "--role", "operator"});
    keys({"new", "app", "--role", "client"});
    keys({"new", "acme-app", "--role", "client", "--tenant", "acme"});
    cluster.use_key(key("ops"), key("app"));
    cluster.start_all();
    REQUIRE(cluster.wait_ready());
  }

  std::string acme_endpoint() const { return "ipc://" + folder_ / "acme"; }

  std::string key(const std::string& name) const {
    return cluster.folder() + "/keys/" + name + ".key";
  }

  /// millrace keys VERB FOLDER NAMES...
  void keys(std::vector<std::string> words) {
    words.insert(words.begin() + 1, cluster.folder() + "/keys");
    words.insert(words.begin(), {MILLRACE_PROGRAM, "keys"});
    process p{words, cluster.folder() + "/keys.log"};
    REQUIRE(p.wait() == 0);
  }

  /// The audit log of a node.
  std::string audit(const std::string& node) const {
    auto file = folder_ / "audit.log";
    process p{
      {MILLRACE_PROGRAM, "store", "audit", cluster.folder() + "/data/" + node},
      file};
    CHECK(p.wait() == 0);
    return *read_file(file, 1 << 20);
  }

  /// Waits until the audit log contains the line.
  void expect_audit(const std::string& node, const std::string& line) const {
    CAPTURE(line);
    CHECK(eventually(
      [&] { return audit(node).find(line) != std::string::npos; }, 5s));
  }

  std::string clients() const { return cluster.endpoint("gw", "clients"); }

  std::string operators(const std::string& node) const {
    return cluster.endpoint(node, "operators");
  }

private:
  temporary_directory folder_;

public:
  live_cluster cluster;
};

} // namespace millrace::test
