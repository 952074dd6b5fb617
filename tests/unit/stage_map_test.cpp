// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>

#include "actors/router/stage_map.hpp"
#include "models/partition/cuts.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

struct stages {
  stage_map map{dispatch_policy::pull, random_stream{1}};

  void add(uint64_t id, uint64_t first, uint64_t last, uint32_t credit = 1) {
    map.add(id, {first, last}, 10);
    map.set_credit(id, credit);
  }
};

} // namespace

TEST_CASE("FP-19: a pipeline is available once all its parts are") {
  stages s;
  s.add(1, 0, 4);
  CHECK_FALSE(s.map.next(0));
  s.add(2, 7, 10);
  CHECK_FALSE(s.map.next(0));
  CHECK(s.map.next(7) == 2);
  s.add(3, 4, 7);
  CHECK(s.map.next(0) == 1);
  CHECK(s.map.next(4) == 3);
  s.map.remove(2);
  CHECK_FALSE(s.map.next(0));
  CHECK_FALSE(s.map.leads_on(4));
  CHECK(s.map.leads_on(10));
}

TEST_CASE(
  "FP-64: whole replicas and replicas of parts are chosen from one pool") {
  stages s;
  s.add(1, 0, 5);
  s.add(2, 5, 10);
  s.add(3, 0, 10, 2);
  CHECK(s.map.next(0) == 3); // the replica with the most credit
  s.map.set_credit(3, 0);
  CHECK(s.map.next(0) == 1);
  s.map.close(2);
  CHECK_FALSE(s.map.next(0)); // no open replica follows it
  CHECK(s.map.next(5) == 2);  // only for batches on their way
  s.map.release(2);
  CHECK_FALSE(s.map.next(5));
  CHECK_FALSE(s.map.leads_on(5));
  s.map.set_credit(3, 1);
  CHECK(s.map.next(0) == 3);
}

TEST_CASE("stage_map: a replica without credit is still a next stage") {
  stages s;
  s.add(1, 0, 5);
  s.add(2, 5, 10, 0);
  CHECK(s.map.next(0) == 1);
  CHECK_FALSE(s.map.next(5));
  CHECK(s.map.leads_on(5));
}

TEST_CASE("stage_map: parts of different cuts form separate pipelines") {
  stages s;
  s.add(1, 0, 5);
  s.add(2, 6, 10); // from another cut, so no pipeline contains it
  CHECK_FALSE(s.map.next(0));
  s.add(3, 5, 6);
  CHECK(s.map.next(0) == 1);
  CHECK(s.map.next(5) == 3);
  s.add(4, 5, 10);
  s.map.close(3);
  CHECK(s.map.next(5) == 4);
}

TEST_CASE("stage_map: a severed pair of replicas is not used") {
  stages s;
  s.add(1, 0, 5);
  s.add(2, 0, 5);
  s.add(3, 5, 10, 4);
  s.add(4, 5, 10, 2);
  CHECK(s.map.next(5, 1) == 3);
  s.map.sever(1, 3);
  CHECK(s.map.next(5, 1) == 4);
  CHECK(s.map.next(5, 2) == 3);
  CHECK(s.map.leads_on(5, 1));
  s.map.set_credit(4, 0);
  CHECK_FALSE(s.map.next(5, 1)); // the batch has to wait
  CHECK(s.map.next(0));
  s.map.sever(1, 4);
  CHECK_FALSE(s.map.leads_on(5, 1));
  CHECK_FALSE(s.map.is_open(5, 1));
  CHECK(s.map.is_open(5, 2));
  CHECK(s.map.next(0) == 2); // replica 1 has no next stage
  SUBCASE("the pair is joined again") {
    s.map.join(1, 3);
    CHECK(s.map.next(5, 1) == 3);
  }
  SUBCASE("a new replica replaces the severed one") {
    s.map.remove(4);
    s.add(4, 5, 10);
    CHECK(s.map.next(5, 1) == 4);
  }
  SUBCASE("a closed replica is used if no other is left") {
    s.map.close(3);
    CHECK_FALSE(s.map.next(5, 2)); // replica 4 is without credit but open
    s.map.sever(2, 4);
    CHECK(s.map.next(5, 2) == 3);
  }
}

TEST_CASE(
  "even_cuts: the largest part is as small as possible and no part is empty") {
  CHECK(even_cuts({1, 1, 1, 1}, 2) == std::vector<uint64_t>{2});
  CHECK(even_cuts({9, 1, 1, 1}, 2) == std::vector<uint64_t>{1});
  CHECK(even_cuts({0, 0, 0}, 3) == std::vector<uint64_t>{1, 2});
  CHECK(even_cuts({5}, 1).empty());
  random_stream random{3};
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint64_t> bytes(1 + random.below(8));
    for (auto& x : bytes)
      x = random.below(20);
    auto parts = 1 + random.below(bytes.size());
    // All possible cuts, as sets of layers that begin a part.
    uint64_t best = UINT64_MAX, got = 0;
    auto largest = [&](uint64_t firsts) {
      uint64_t out = 0, sum = 0;
      for (size_t k = 0; k < bytes.size(); ++k) {
        sum = (firsts >> k & 1) != 0 ? bytes[k] : sum + bytes[k];
        out = std::max(out, sum);
      }
      return out;
    };
    for (uint64_t firsts = 0; firsts < uint64_t{1} << bytes.size(); ++firsts)
      if ((firsts & 1) == 0
          && std::popcount(firsts) == static_cast<int>(parts) - 1)
        best = std::min(best, largest(firsts));
    auto cuts = even_cuts(bytes, parts);
    REQUIRE(cuts.size() + 1 == parts);
    uint64_t chosen = 0;
    for (auto cut : cuts)
      chosen |= uint64_t{1} << cut;
    got = largest(chosen);
    CHECK(std::popcount(chosen) == static_cast<int>(parts) - 1);
    CHECK(got == best);
  }
}
