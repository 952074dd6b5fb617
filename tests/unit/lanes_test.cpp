// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <future>

#include "models/device/lanes.hpp"

using namespace millrace;

namespace {

/// Work that runs until the test ends it, and that reports its lane.
struct job {
  std::shared_ptr<std::promise<uint32_t>> began =
    std::make_shared<std::promise<uint32_t>>();
  std::shared_future<void> ends;
};

void run(const job& x, uint32_t lane) {
  x.began->set_value(lane);
  x.ends.wait_for(20s); // with a limit, so that a failed test ends
}

uint32_t lane_of(const job& x) {
  auto began = x.began->get_future();
  REQUIRE(began.wait_for(10s) == std::future_status::ready);
  return began.get();
}

} // namespace

TEST_CASE("lanes: work goes to a lane with other tasks in preference to a lane "
          "with work") {
  std::promise<void> work_ends, other_ends;
  {
    lanes<job> all{"test", 2, run};
    CHECK_FALSE(all.have_work());
    job first;
    first.ends = work_ends.get_future().share();
    all.add(first);
    CHECK(lane_of(first) == 0);
    CHECK(all.have_work());
    CHECK(all.without_work() == 1);
    std::promise<void> other_began;
    all.post(1, [&] {
      other_began.set_value();
      other_ends.get_future().wait();
    });
    other_began.get_future().wait();
    job second;
    second.ends = first.ends;
    all.add(second); // a tie would have put it behind the first job
    other_ends.set_value();
    CHECK(lane_of(second) == 1);
    CHECK_FALSE(all.without_work());
    work_ends.set_value();
  }
}
