// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include <doctest/doctest.h>

#include "tests/support/children.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P14: sandboxed processes of two nodes that root runs have"
          " different users") {
  live_cluster c{{{"ctl", "    roles: [controller]\n"},
                  {"w1", "    roles: [worker]\n"},
                  {"w2", "    roles: [worker]\n"}},
                 "  - {model: affine, replicas: 2}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  std::map<std::string, uid_t> users;
  for (auto node : {"w1", "w2"}) {
    auto all = grandchildren_of(c[node].pid());
    REQUIRE_FALSE(all.empty());
    std::ifstream status{"/proc/" + std::to_string(*all.begin()) + "/status"};
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("Uid:"))
        users[node] = static_cast<uid_t>(std::stoul(line.substr(4)));
  }
  if (::geteuid() != 0) { // only root can change the user
    CHECK(users["w1"] == ::geteuid());
    return;
  }
  CHECK(users["w1"] != 0);
  CHECK(users["w1"] != users["w2"]);
}
