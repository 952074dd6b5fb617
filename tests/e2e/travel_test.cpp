// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/support/canary_load.hpp"
#include "tests/support/live_cluster.hpp"

/// \file
/// Transfers of models between workers.

using namespace millrace;
using namespace millrace::test;

namespace {

/// A worker without local bundles.
std::string empty_handed(const temporary_directory& folder) {
  return "    roles: [worker]\n    host: another\n    models: " + folder.path()
         + "\n";
}

} // namespace

TEST_CASE("FP-37: a worker fetches a missing bundle from a worker that has the"
          " bundle") {
  temporary_directory nothing;
  auto nodes = apart();
  nodes["w2"] = empty_handed(nothing);
  live_cluster c{nodes, "  - {model: ballast, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  CHECK(c.logged("w1", "relay.arrived") == 0);
  CHECK(c.logged("w2", "relay.arrived") == 1);
  CHECK(c.wait_status("w2", [](auto& x) {
    return x.replicas.size() == 1
           && x.replicas[0].state == replica_condition::ready;
  }));
  CHECK(std::filesystem::is_empty(nothing.path()));
}
