// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/confined/load_order.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("QU-44: the load order of a process names its GPU if it has one") {
  confined::stage_settings x;
  x.content = make_bundle("m");
  x.last_layer = 1;
  auto without = confined::make_load_order(x);
  REQUIRE(without);
  CHECK(without->what.on_gpu == 0);
  x.gpu = gpu_place{2, gpu_sharing::mps, 40};
  auto with = confined::make_load_order(x);
  REQUIRE(with);
  CHECK(with->what.on_gpu == 1);
  CHECK(with->what.place.gpu == 2);
  CHECK(with->what.place.share == 40);
}
