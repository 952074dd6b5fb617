// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/chain_of_four.hpp"

/// \file
/// Transfers of models without a good source, or without a user.

using namespace millrace;
using namespace millrace::test;

namespace {

/// Changes each chunk of a source.
shared_bytes spoilt(const std::string&, size_t, const shared_bytes& content) {
  auto text = std::string{content.text()};
  text[text.size() / 2] ^= 1;
  return shared_bytes::copy_of(text);
}

std::vector<replica_start> starts(chain_of_four& x) {
  auto list =
    x.c.ask_actor<start_list, placement_actor>("./placement", get_starts{});
  REQUIRE(list);
  return list->starts;
}

} // namespace

TEST_CASE("P8: a source that sends only wrong bytes is given up after one"
          " minute and the model is quarantined") {
  chain_of_four x;
  x.damage = spoilt;
  x.c.advance(50s);
  for (auto& y : starts(x))
    CHECK(y.how.state != replica_condition::failed);
  x.c.advance(400s);
  size_t failed = 0, wrong = 0;
  for (auto& y : starts(x)) {
    CHECK(y.ready == (y.how.what.node == "w1" ? y.ready : 0us));
    failed += y.how.state == replica_condition::failed;
    wrong += y.how.reason.find("w1: travels/1/weights") != std::string::npos;
  }
  CHECK(failed >= 3);
  CHECK(wrong >= 1);
  auto models =
    x.c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  REQUIRE(models);
  auto& note = models->models.at(0).note;
  CAPTURE(note);
  CHECK(note.starts_with("in quarantine: "));
  CHECK(note.find("no host has sent it for a minute") != std::string::npos);
}

TEST_CASE("P7: hosts of a chain that lost its source fail at the same time and"
          " not one after the other") {
  chain_of_four x;
  x.until("w5", 4);
  x.c.kill("w1");
  x.c.advance(50s);
  auto failed = [&] {
    std::set<std::string> out;
    for (auto& y : starts(x))
      if (y.how.state == replica_condition::failed && y.how.what.node != "w1")
        out.insert(y.how.what.node);
    return out.size();
  };
  CHECK(failed() == 0);
  x.c.advance(90s);
  CHECK(failed() == all_receivers.size());
}

TEST_CASE("cache: the fetch of a model that is no longer needed stops and its"
          " space is freed") {
  for (size_t phase : {0, 1, 6, 11}) {
    CAPTURE(phase);
    chain_of_four x;
    x.until("w3", phase);
    have(x.c, chain_of_four::wanted(0, "travels"));
    auto look = [&](const std::string& node) {
      auto cache = x.c.ask_actor<cache_status, cache_actor>(node + "/cache",
                                                            get_cache{}, 5ms);
      REQUIRE(cache);
      return *cache;
    };
    for (auto& node : all_receivers)
      look(node);
    x.c.advance(5s);
    auto before = x.came;
    x.c.advance(1s);
    CHECK(x.came == before);
    for (auto& node : all_receivers) {
      CAPTURE(node);
      for (auto& y : look(node).bundles) {
        CHECK(y.state != cache_place::arriving);
        CHECK(y.users == 0);
      }
    }
  }
}

TEST_CASE("cache: the replacement of a failed replica continues its fetch") {
  chain_of_four x;
  x.until("w3", 6);
  auto placed = starts(x);
  for (auto& y : placed)
    if (y.how.what.node == "w3")
      x.c.node("w3").crash("replica/" + y.how.what.replica, 0);
  x.c.advance(1s);
  x.check_others("");
}

TEST_CASE("P7: hosts with a source of one chunk per second each get the"
          " model") {
  chain_of_four x;
  x.c.inside().network().set_speed(x.c.node("w1").host(), .01);
  x.c.advance(chunks * 1s + 12s); // includes time to measure the source
  for (auto& node : all_receivers)
    x.check(node, true, 2);
}

TEST_CASE("chains: the chain list shows no chunk before it has arrived") {
  chain_of_four x;
  for (int i = 0; i < 60; ++i) {
    auto list = x.c.ask_actor<chain_list, chain_controller_actor>(
      "./chains", get_chains{}, 1ms);
    REQUIRE(list);
    for (auto& chain : list->chains)
      for (auto& hop : chain.hops) {
        CAPTURE(hop.node);
        CHECK(hop.chunks - hop.missing <= x.came[hop.node].size());
        CHECK(hop.bytes <= hop.chunks * chunk_bytes);
      }
  }
}
