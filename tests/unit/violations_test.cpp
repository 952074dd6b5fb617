// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "millrace/print.hpp"
#include "millrace/violations.hpp"
#include "simulator/invariants.hpp"
#include "simulator/ledger.hpp"

using namespace millrace;

namespace {

std::string replay_of(const broken_promise& x) {
  return "again " + std::to_string(*x.seed);
}

/// Two violations of I10 for each of the seeds 1 to `seeds`, and one of I2.
std::vector<broken_promise> many(uint64_t seeds) {
  std::vector<broken_promise> out;
  for (uint64_t seed = 1; seed <= seeds; ++seed)
    for (auto* text : {"at 1 s: node w1 obeys epoch 1", "at 2 s: again"})
      out.push_back({"I10", text, seed, 9, 2});
  out.push_back({"I2", "at 3 s: request 7 went to another client", 4, 9, 3});
  return out;
}

} // namespace

TEST_CASE("explore: violations are grouped by invariant with its meaning and "
          "five seeds each") {
  auto text = violations_text(many(700), 0, replay_of);
  CHECK(text
        == "I2 (1 violation, 1 seed): An answer goes to the client that sent"
           " the request, and is computed from the request's inputs.\n"
           "  seed 4, first 3 of 9 faults: at 3 s: request 7 went to another"
           " client\n"
           "  look at it with\n"
           "  again 4\n"
           "I10 (1400 violations, 700 seeds): A node obeys one controller epoch"
           " at a time and never returns to an older one.\n"
           "  seed 1, first 2 of 9 faults: at 1 s: node w1 obeys epoch 1\n"
           "  seed 2, first 2 of 9 faults: at 1 s: node w1 obeys epoch 1\n"
           "  seed 3, first 2 of 9 faults: at 1 s: node w1 obeys epoch 1\n"
           "  seed 4, first 2 of 9 faults: at 1 s: node w1 obeys epoch 1\n"
           "  seed 5, first 2 of 9 faults: at 1 s: node w1 obeys epoch 1\n"
           "  and 695 seeds more\n"
           "  look at it with\n"
           "  again 1\n");
}

TEST_CASE("explore: lines of violations fit a terminal") {
  auto text = violations_text(many(20), 80, replay_of);
  for (auto line : split(text, '\n'))
    CHECK(line.size() <= 80);
}

TEST_CASE("explore: a violation of all seeds together has no replay command") {
  std::vector<broken_promise> all{{"P21", "a.b never happened in 9 seeds"}};
  auto text = violations_text(all, 0, replay_of);
  CHECK(text.find("  a.b never happened in 9 seeds\n") != std::string::npos);
  CHECK(text.find("look at it") == std::string::npos);
  CHECK(to_string(all[0]) == "P21 a.b never happened in 9 seeds");
}

TEST_CASE("explore: every checked invariant has a meaning") {
  using namespace simulator;
  ledger book;
  loaded_scenario what;
  expectations expect;
  expect.what = &what;
  invariant_list all;
  add_request_invariants(book, expect, all);
  add_cluster_invariants(book, expect, all);
  add_transfer_invariants(expect, all);
  add_device_invariants(expect, all);
  CHECK(all.size() > 15);
  for (auto& x : all) {
    CAPTURE(x->name());
    CHECK_FALSE(meaning_of(x->name()).empty());
  }
  for (auto* name : {"I30", "P20", "P21", "P22"})
    CHECK_FALSE(meaning_of(name).empty());
  CHECK(meaning_of("I999").empty());
}
