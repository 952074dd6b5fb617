// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "simulator/replica_counts.hpp"
#include "simulator/summary.hpp"

using namespace millrace;
using namespace millrace::simulator;

namespace {

replica_row counted_replica(uint32_t model, microseconds decided,
                            std::optional<microseconds> ready,
                            std::optional<microseconds> ended) {
  replica_row x;
  x.model = model;
  x.decided = decided;
  x.begun = decided + 1s;
  x.ready = ready;
  x.ended = ended;
  return x;
}

event_row logged(microseconds at, std::string what) {
  event_row x;
  x.at = at;
  x.what = std::move(what);
  return x;
}

/// "at model wanted reserved ready" of each row; the time is in seconds.
std::vector<std::string> shown_counts(const record& run) {
  std::vector<std::string> out;
  for (auto& x : replica_counts(run))
    out.push_back(std::to_string(x.at / 1s) + " " + x.model + " "
                  + std::to_string(x.wanted) + " " + std::to_string(x.reserved)
                  + " " + std::to_string(x.ready));
  return out;
}

} // namespace

TEST_CASE("replica counts: a replica is reserved from the decision and ready "
          "from the end of the load") {
  record run;
  auto a = run.names.number_of("a");
  run.replicas = {counted_replica(a, 2s, 5s, 9s),
                  counted_replica(a, 4s, std::nullopt, 6s),
                  counted_replica(a, 9s, 12s, std::nullopt)};
  CHECK(shown_counts(run)
        == std::vector<std::string>{"2 a 0 1 0", "4 a 0 2 0", "5 a 0 2 1",
                                    "6 a 0 1 1", "9 a 0 1 0", "12 a 0 1 1"});
}

TEST_CASE("replica counts: the wanted number is the scope's decision or else "
          "the model's setting") {
  record run;
  run.events = {
    logged(0s, "registry.changed model=a replicas=2 what=\"new\""),
    logged(0s, "registry.changed model=b replicas=1 what=\"new\""),
    logged(3s, "autoscaler.scaled model=a from=2 to=5 policy=arrival_rate"),
    logged(4s, "registry.changed model=a replicas=2 what=\"slo\""),
    logged(7s, "autoscaler.scaled model=a from=5 to=0 policy=arrival_rate")};
  CHECK(shown_counts(run)
        == std::vector<std::string>{"0 a 2 0 0", "0 b 1 0 0", "3 a 5 0 0",
                                    "7 a 0 0 0"});
}

TEST_CASE("summary: the busiest links come first and links without bytes are "
          "left out") {
  std::vector<link_use> all{{"w1 up", 10, 10, 100},
                            {"store up", 90, 80, 100},
                            {"w1 down", 0, 0, 100},
                            {"front up", 1e6, 0, 1e5}};
  for (int i = 0; i < 20; ++i)
    all.push_back({"idle " + std::to_string(i), 1, 1, 100});
  auto found = busiest_links(all);
  REQUIRE(found.size() == 10);
  CHECK(found[0].link == "front up");
  CHECK(found[0].utilisation == 1); // small messages share no capacity
  CHECK(found[1].link == "store up");
  CHECK(found[1].bytes == 90);
  CHECK(found[1].utilisation == doctest::Approx(0.9));
  CHECK(found[2].link == "w1 up");
}
