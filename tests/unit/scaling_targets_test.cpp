// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/one_model.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("FP-25: invocations proposes the replicas that share the requests at "
          "the target") {
  struct {
    double rate;
    const char* target;
    uint64_t there, replicas;
  } const table[]{{60, "10", 1, 6},  {60, "20", 1, 3}, {61, "20", 5, 4},
                  {60, "100", 4, 1}, {1e6, "1", 1, 8}, {0, "1", 4, 1},
                  {60, "0", 1, 2}, // half of 66.7 a second for each replica
                  {100, "0", 1, 3}};
  for (auto& row : table) {
    CAPTURE(row.rate);
    CAPTURE(row.target);
    one_model x{"invocations", {{"target", row.target}, {"up_after", "0s"}}};
    x.load.groups.push_back({{}, {0, 16}, 1, row.there, 0});
    x.set_rate(row.rate);
    CHECK(x.ask().groups[0].count == row.replicas);
  }
}

TEST_CASE("FP-25: without a target invocations keeps the replicas until a cost "
          "is known") {
  one_model x{"invocations", {{"up_after", "0s"}}};
  x.load.groups.push_back({{}, {0, 16}, 1, 3, 0});
  x.set_rate(100);
  x.load.service = 0;
  CHECK(x.ask().groups[0].count == 3);
  x.load.service = 0.025; // 20 of 40 a second for each replica
  CHECK(x.ask().groups[0].count == 5);
}

TEST_CASE("FP-25: utilisation proposes current times metric over target within "
          "one step's limit") {
  struct {
    double rate; // requests of 15 ms each
    uint64_t waiting, ready, starting, then;
  } const table[]{{80, 0, 2, 0, 2},   // 1.2 of 2 replicas are busy: 60 %
                  {100, 0, 2, 0, 3},  // 75 %
                  {84, 0, 2, 0, 2},   // 63 %: within the tolerance
                  {1000, 0, 2, 0, 4}, // 100 %: 2 / 0.6
                  {80, 1000, 2, 0, 4}, {20, 0, 4, 0, 1}, // 7.5 %
                  {20, 0, 3, 1, 4},                      // one replica starts
                  {1000, 0, 2, 2, 4}, // counts ready ones only
                  {0, 0, 4, 0, 1}};
  for (auto& row : table) {
    CAPTURE(row.rate);
    CAPTURE(row.ready);
    one_model x{"utilisation", {{"up_after", "0s"}, {"cooldown", "0s"}}};
    x.load.groups.push_back({{}, {0, 16}, 1, row.ready, row.starting});
    x.set_rate(row.rate);
    x.load.waiting = row.waiting;
    CHECK(x.ask().groups[0].count == row.then);
  }
}

TEST_CASE("scaling: with cuts by time parts take equally long and stay while "
          "they are nearly as good") {
  auto profiled = [](double of_first) {
    profile known;
    known.model = "m";
    for (int layer = 0; layer < 16; ++layer)
      known.points.push_back(
        {"v100",
         1,
         {{"layer", layer}},
         {{"execute_seconds", layer < 4 ? of_first : 0.001}}});
    cost_book book{1, {}, {}};
    book.profiles["m"] =
      std::make_shared<const model_profiles>(model_profiles{{known}});
    return std::make_shared<const cost_book>(book);
  };
  for (auto* policy : {"fixed", "arrival_rate"}) {
    CAPTURE(policy);
    one_model x{policy, {{"cuts", "time"}}};
    x.settings.parts = 2;
    auto cut = [&] {
      x.now += 1s;
      return x.ask().groups[0].layers.last;
    };
    CHECK(cut() == 8); // by bytes, because no profile is known
    x.snapshot.costs = profiled(0.003);
    CHECK(cut() == 4); // 12 and 12 ms
    x.snapshot.costs = profiled(0.0031);
    CHECK(cut() == 4);
    x.snapshot.costs = profiled(0.006); // 24 and 12, or 18 and 18
    CHECK(cut() == 3);
    x.snapshot.costs = nullptr;
    CHECK(cut() == 3); // the running cut stays
    x.settings.cuts = {5};
    CHECK(cut() == 5); // the operator's cuts come first
  }
  one_model by_bytes{"fixed"};
  by_bytes.settings.parts = 2;
  by_bytes.snapshot.costs = profiled(0.003);
  CHECK(by_bytes.ask().groups[0].layers.last == 8);
}
