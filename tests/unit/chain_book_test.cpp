// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "actors/chain/chain_book.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

using strings = std::vector<std::string>;
using orders = chain_book::orders;

constexpr uint64_t all = 100; ///< chunks of the content

const timestamp begin{};

/// A chain book with nodes that have the content and nodes that need it.
struct board {
  chain_book book{500ms};
  timestamp now = begin;

  void has(const std::string& node, const std::string& rack = {}) {
    book.report(node, {rack, 0, false, true}, now);
  }
  void wants(const std::string& node, uint64_t missing = all,
             const std::string& rack = {}) {
    book.report(node, {rack, missing, true, true}, now);
  }
  orders plan() { return book.plan(now); }
};

} // namespace

TEST_CASE(
  "FP-44: receivers form a chain in which each receives from its predecessor") {
  board x;
  x.has("s");
  for (auto node : {"a", "b", "c"})
    x.wants(node);
  CHECK(x.plan() == orders{{"a", {"s"}}, {"b", {"a"}}, {"c", {"b"}}});
}

TEST_CASE("chain_book: a receiver that reads from an object store has longer "
          "to start") {
  for (auto remote : {false, true}) {
    CAPTURE(remote);
    board x;
    x.book.report("s", {{}, 0, false, true, 0, remote}, x.now);
    for (auto node : {"a", "b"})
      x.wants(node);
    CHECK(x.plan().at("a") == strings{"s"});
    x.now += 14s;
    CHECK((x.plan().at("a") == strings{"s"}) == remote);
    x.now += 2s; // only this node may be unable to reach the store
    if (remote)
      CHECK(x.plan().at("b") == strings{"s"});
  }
}

TEST_CASE("FP-43: receivers are spread evenly over senders") {
  for (size_t senders = 1; senders <= 6; ++senders)
    for (size_t receivers = 1; receivers <= 20; ++receivers) {
      CAPTURE(senders);
      CAPTURE(receivers);
      board x;
      for (size_t i = 0; i < senders; ++i)
        x.has("s" + std::to_string(i));
      for (size_t i = 0; i < receivers; ++i)
        x.wants("r" + std::to_string(100 + i));
      x.plan();
      auto& chains = x.book.chains();
      CHECK(chains.size() == std::min(senders, receivers));
      size_t least = receivers, most = 0;
      for (auto& chain : chains) {
        least = std::min(least, chain.members.size());
        most = std::max(most, chain.members.size());
      }
      CHECK(most - least <= 1);
    }
}

TEST_CASE("chain_book: hosts of a rack follow each other behind a source of "
          "that rack") {
  board x;
  x.has("s1", "one");
  x.has("s2", "two");
  x.wants("a", all, "two");
  x.wants("b", all, "one");
  x.wants("c", all, "two");
  x.wants("d", all, "one");
  CHECK(x.plan()
        == orders{{"b", {"s1"}}, {"d", {"b"}}, {"a", {"s2"}}, {"c", {"a"}}});
}

TEST_CASE(
  "FP-48: when a host is lost its successor is linked to its predecessor") {
  board x;
  x.has("s");
  for (auto node : {"a", "b", "c"})
    x.wants(node);
  x.plan();
  x.book.lose("b");
  CHECK(x.plan() == orders{{"a", {"s"}}, {"c", {"a"}}});
  x.book.lose("a");
  CHECK(x.plan() == orders{{"c", {"s"}}});
}

TEST_CASE("chain_book: another host with the content replaces a lost source") {
  board x;
  x.has("s");
  x.wants("a");
  x.plan();
  x.has("t");
  x.book.lose("s");
  CHECK(x.plan() == orders{{"a", {"t"}}});
}

TEST_CASE("chain_book: a later receiver joins at the end of a chain") {
  board x;
  x.has("s");
  x.wants("a");
  x.wants("b");
  x.plan();
  x.wants("a", 20);
  x.wants("b", 30);
  x.wants("0");
  CHECK(x.plan() == orders{{"a", {"s"}}, {"b", {"a"}}, {"0", {"b"}}});
}

TEST_CASE("FP-46: no host sends to two receivers while another host is free") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    CAPTURE(seed);
    random_stream random{seed};
    board x;
    x.has("s");
    std::map<std::string, uint64_t> missing;
    for (int step = 0; step < 60; ++step) {
      x.now += 10ms;
      auto node = "n" + std::to_string(random.below(8));
      if (random.below(10) == 0) {
        x.book.lose(node);
        missing.erase(node);
      } else {
        auto& left = missing.try_emplace(node, all).first->second;
        left -= std::min<uint64_t>(left, random.below(30));
        left > 0 ? x.wants(node, left) : x.has(node);
      }
      std::map<std::string, size_t> sends;
      auto plan = x.plan();
      size_t waiting = 0;
      for (auto& [to, left] : missing)
        if (left > 0) {
          ++waiting;
          CHECK(!plan[to].empty()); // s has the content
        }
      CHECK(plan.size() == waiting);
      // No two chains begin at one host while another host is free.
      for (auto& [to, from] : plan)
        for (auto& source : from)
          ++sends[source];
      for (auto& [source, n] : sends)
        CHECK(n <= 1);
    }
  }
}

TEST_CASE("chain_book: a receiver that stalls although its source has data "
          "moves to the end of its chain") {
  board x;
  x.has("s");
  for (auto node : {"a", "b", "c"})
    x.wants(node);
  x.plan();
  for (int i = 1; i <= 6; ++i) { // b hangs; c can get nothing from b
    x.now += 100ms;
    x.wants("a", all - static_cast<uint64_t>(i) * 5);
    x.wants("b");
    x.wants("c");
    x.plan();
  }
  CHECK(x.plan() == orders{{"a", {"s"}}, {"c", {"a"}}, {"b", {"c"}}});
  CHECK(x.book.passed_over() == 1);
}

namespace {

/// A, b and c form a chain behind s and receive `a`, `b` and `c` chunks each
/// 100 ms. Returns the chain after `steps` such periods.
orders after(uint64_t steps, uint64_t a, uint64_t b, uint64_t c) {
  board x;
  x.has("s");
  for (uint64_t i = 0; i <= steps; ++i) {
    x.wants("a", all - i * a);
    x.wants("b", all - i * b);
    x.wants("c", all - i * c);
    x.plan();
    x.now += 100ms;
  }
  return x.plan();
}

} // namespace

TEST_CASE("chain_book: a receiver much slower than its predecessor moves to "
          "the end of its chain once") {
  const orders as_they_came{{"a", {"s"}}, {"b", {"a"}}, {"c", {"b"}}};
  CHECK(after(3, 5, 1, 1) == as_they_came);
  CHECK(after(6, 5, 1, 1) == orders{{"a", {"s"}}, {"c", {"a"}}, {"b", {"c"}}});
  CHECK(after(11, 5, 1, 1) == as_they_came); // c was as slow as b
  CHECK(after(19, 5, 1, 1) == as_they_came);
}

TEST_CASE("chain_book: receivers that are all slow keep their order") {
  for (uint64_t steps = 0; steps < 30; ++steps)
    CHECK(after(steps, 3, 3, 2)
          == orders{{"a", {"s"}}, {"b", {"a"}}, {"c", {"b"}}});
}

TEST_CASE("chain_book: the first receiver moves to the end if its successors "
          "were faster before") {
  board x;
  x.has("s");
  for (auto node : {"a", "b"})
    x.book.report(
      node, {"", all, true, true, node == std::string{"b"} ? 50. : 0}, x.now);
  CHECK(x.plan() == orders{{"a", {"s"}}, {"b", {"a"}}});
  for (uint64_t i = 1; i <= 6; ++i) {
    x.now += 100ms;
    x.book.report("a", {"", all - i, true, true}, x.now);
    x.plan();
  }
  CHECK(x.plan() == orders{{"b", {"s"}}, {"a", {"b"}}});
}

TEST_CASE(
  "chain_book: a receiver with a low known speed stands behind the others") {
  board x;
  x.has("s");
  for (auto& [node, speed] : std::vector<std::pair<std::string, double>>{
         {"a", 5}, {"b", 0}, {"c", 50}, {"d", 30}})
    x.book.report(node, {"", all, true, true, speed}, x.now);
  CHECK(x.plan()
        == orders{{"b", {"s"}}, {"c", {"b"}}, {"d", {"c"}}, {"a", {"d"}}});
}

TEST_CASE("chain_book: a receiver whose source has nothing new is not slow") {
  board x;
  x.has("s");
  x.wants("a", 50);
  x.wants("b", 50);
  x.wants("c", 50);
  x.plan();
  for (int i = 1; i <= 4; ++i) {
    x.now += 100ms;
    CHECK(x.plan() == orders{{"a", {"s"}}, {"b", {"a"}}, {"c", {"b"}}});
  }
}

TEST_CASE("FP-62: several hosts with the content send to one chain together") {
  board x;
  for (auto node : {"s1", "s2", "s3"})
    x.has(node);
  x.wants("a");
  CHECK(x.plan() == orders{{"a", {"s1", "s2", "s3"}}});
}

TEST_CASE("chain_book: without a complete source the host with more chunks "
          "sends to the other") {
  board x;
  x.wants("a", 60);
  x.wants("b", 40);
  auto plan = x.plan();
  CHECK(plan["a"].size() + plan["b"].size() == 1);
}

TEST_CASE("chain_book: a receiver that is complete becomes the source of the "
          "rest of its chain") {
  board x;
  x.has("s");
  for (auto node : {"a", "b", "c"})
    x.wants(node);
  x.plan();
  x.has("a");
  CHECK(x.plan() == orders{{"b", {"a", "s"}}, {"c", {"b"}}});
  x.has("b");
  x.has("c");
  CHECK(x.plan().empty());
  CHECK(x.book.chains().empty());
}

TEST_CASE("chain_book: in unicast all receivers read from complete sources") {
  chain_book x{500ms, bulk_topology::unicast};
  x.report("s", {"", 0, false, true}, begin);
  for (auto node : {"a", "b"})
    x.report(node, {"", all, true, true}, begin);
  CHECK(x.plan(begin) == orders{{"a", {"s"}}, {"b", {"s"}}});
}

TEST_CASE("FP-58: with topology stores all receivers read from object stores "
          "even if a host has the content") {
  chain_book x{500ms, bulk_topology::stores};
  x.report("host", {"", 0, false, true}, begin);
  x.report("store:s", {"", 0, false, true, 0, true}, begin);
  for (auto node : {"a", "b"})
    x.report(node, {"", all, true, true}, begin);
  CHECK(x.plan(begin) == orders{{"a", {"store:s"}}, {"b", {"store:s"}}});
}
