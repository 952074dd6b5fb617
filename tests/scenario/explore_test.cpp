// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "simulator/explore.hpp"

using namespace millrace;
using namespace millrace::simulator;

namespace {

loaded_scenario scenario_called(const std::string& name) {
  auto out =
    load_scenario(MILLRACE_SOURCE "/config/scenarios/" + name + ".yaml");
  REQUIRE(out);
  return std::move(*out);
}

loaded_scenario storm_scenario() {
  return scenario_called("storm");
}

/// Runs a seed and checks that no invariant is violated.
seed_result check_seed(const loaded_scenario& what, uint64_t seed) {
  auto x = explore_seed(what, seed, {});
  REQUIRE(x);
  for (auto& v : x->violations)
    FAIL_CHECK(v.invariant << ": " << v.what);
  return std::move(*x);
}

} // namespace

TEST_CASE("P1: explored seeds of a cluster with faults keep all invariants") {
  auto what = storm_scenario();
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    CAPTURE(seed);
    CHECK(check_seed(what, seed).requests >= 1000);
  }
}

TEST_CASE("P1: explored seeds with faults and model transfers keep all"
          " invariants") {
  auto what = scenario_called("travel");
  // 115: a restarted cache did not have the users of its bundles.
  for (uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8, 115}) {
    CAPTURE(seed);
    CHECK(check_seed(what, seed).requests >= 500);
  }
}

TEST_CASE("P1: a seed that once violated an invariant keeps all invariants") {
  // 17,953,647,560,162: a hello was in transit when both sides linked again,
  // and ended one side of the new link permanently. 1,406 and 2,630: a batch
  // had the number of a batch that the previous router had given up.
  auto what = storm_scenario();
  for (uint64_t seed : {17'953'647'560'162, 1'406l, 2'630l}) {
    CAPTURE(seed);
    CHECK(check_seed(what, seed).hits > 0);
  }
}

TEST_CASE("P20: one seed gives the same run twice and another seed gives"
          " another run") {
  auto what = storm_scenario();
  std::set<uint64_t> hashes;
  for (uint64_t seed = 100; seed < 120; ++seed) {
    auto first = explore_seed(what, seed, {});
    auto second = explore_seed(what, seed, {});
    REQUIRE(first);
    CHECK(first->hash == second->hash);
    hashes.insert(first->hash);
  }
  CHECK(hashes.size() == 20);
}

TEST_CASE("P21: each planted bug is found by the invariant for it") {
  const std::map<planted_bug, std::set<std::string>> expected{
    {planted_bug::double_answer, {"I1"}},
    {planted_bug::lost_answer, {"I1"}},
    {planted_bug::wrong_client, {"I1", "I2", "I3"}},
    {planted_bug::lost_message, {"I21", "I25", "I13"}},
    {planted_bug::stale_link, {"I9", "I11"}},
    {planted_bug::dead_link, {"I26"}},
    {planted_bug::open_door, {"I29"}},
    {planted_bug::forgotten, {"I12"}},
    {planted_bug::chance, {}}};
  CHECK(expected.size() + 1 == names_of(planted_bug{}).size());
  auto what = storm_scenario();
  for (auto& [bug, names] : expected) {
    exploration how;
    how.bug = bug;
    bool found = false;
    for (uint64_t seed = 1; seed <= 100 && !found; ++seed) {
      auto x = explore_seed(what, seed, how);
      REQUIRE(x);
      found = std::any_of(
        x->violations.begin(), x->violations.end(),
        [&, &names = names](auto& v) { return names.contains(v.invariant); });
      if (bug == planted_bug::chance)
        found = explore_seed(what, seed, how)->hash != x->hash;
    }
    CAPTURE(to_string(how.bug));
    CHECK(found);
  }
}

TEST_CASE("P21: an order without permission is found in a run without faults") {
  exploration how;
  how.bug = planted_bug::open_door;
  how.faults = 0;
  auto x = explore_seed(storm_scenario(), 1, how);
  REQUIRE(x);
  REQUIRE(x->violations.size() == 1);
  CHECK(x->violations[0].invariant == "I29");
}

TEST_CASE("P22: exploring draws every kind of fault and each affects open"
          " requests") {
  auto what = storm_scenario();
  std::map<fault_kind, size_t> kinds;
  size_t faults = 0, hits = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    auto x = explore_seed(what, seed, {});
    for (auto& f : x->faults)
      ++kinds[f.kind];
    faults += x->faults.size();
    hits += x->hits;
  }
  CHECK(kinds.size() == names_of(fault_kind{}).size());
  CHECK(hits > faults / 3);
}

TEST_CASE("explore: the shortest prefix of faults that shows a violation is"
          " found") {
  auto what = storm_scenario();
  exploration how;
  how.bug = planted_bug::dead_link;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    auto x = explore_seed(what, seed, how);
    REQUIRE(x);
    if (x->violations.empty())
      continue;
    auto n = shortest_prefix(what, *x, how);
    how.faults = n;
    CHECK_FALSE(explore_seed(what, seed, how)->violations.empty());
    if (n > 0) {
      how.faults = n - 1;
      CHECK(explore_seed(what, seed, how)->violations.empty());
    }
    return;
  }
  FAIL("no seed shows the bug");
}
