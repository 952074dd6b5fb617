// SPDX-License-Identifier: Apache-2.0
#include <bit>

#include <doctest/doctest.h>

#include "tests/support/builders.hpp"
#include "tests/support/environment_variable.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// One row for the model of hostile_backend.cpp, served as "identity". The
/// first eight bytes are the number of the action.
infer deed(uint32_t number) {
  std::vector<float> row(4);
  row[0] = std::bit_cast<float>(number);
  return ask("identity", *tensor::make(dtype::f32, {1, 4}, bytes_of(row)));
}

constexpr uint32_t crash = 1000, nothing = 2000;

/// A node that runs crashing code as trusted code.
class crashing_node {
public:
  explicit crashing_node(const std::string& isolation)
    : cluster({{"all", "    roles: [gateway, controller, worker]\n"
                       "    devices: [{id: cpu0, type: cpu, isolation: "
                         + isolation + "}]\n"}},
              "  - {model: identity, trusted: true}\n", bundles) {}

  void start() {
    cluster.start("all");
    REQUIRE(cluster.wait_ready());
  }

  void crash_once() {
    start();
    auto client = cluster.connect_client();
    static_cast<void>(client.infer_one(deed(crash), 2s));
    CHECK(cluster["all"].wait() != 0);
  }

  bool has_trouble(const std::string& text) {
    return cluster.wait_status("all", [&](const node_status& x) {
      return std::any_of(x.troubles.begin(), x.troubles.end(), [&](auto& y) {
        return y.find(text) != std::string::npos;
      });
    });
  }

private:
  environment_variable backend_{"MILLRACE_BACKEND", HOSTILE_BACKEND};

public:
  live_cluster cluster;
};

} // namespace

TEST_CASE("crashes: trusted code that crashed its node three times runs in a"
          " sandbox and the status names the model") {
  crashing_node node{"auto"};
  for (int i = 0; i < 3; ++i)
    node.crash_once();
  node.start();
  CHECK(node.has_trouble("model identity.1 crashed this node 3 times"));
  auto client = node.cluster.connect_client();
  CHECK(client.infer_one(deed(nothing), 2s).status == ec::ok);
  CHECK(client.infer_one(deed(crash), 2s).status == ec::poison);
  CHECK(eventually(
    [&] { return client.infer_one(deed(nothing), 2s).status == ec::ok; }, 5s));
}

TEST_CASE("crashes: a node without sandboxes does not load a model that crashed"
          " it three times until its crashes are forgiven") {
  crashing_node node{"thread"};
  for (int i = 0; i < 3; ++i)
    node.crash_once();
  auto& c = node.cluster;
  c.start("all");
  CHECK(node.has_trouble("model identity.1 crashed this node 3 times"));
  CHECK(eventually(
    [&] { return c.logged("all", "no longer runs in threads") > 0; }, 5s));
  c["all"].end(SIGTERM);
  process forgive{{MILLRACE_PROGRAM, "store", "forgive",
                   c.folder() + "/data/all", "identity.1"},
                  c.folder() + "/forgive.log"};
  CHECK(forgive.wait() == 0);
  node.start();
}
