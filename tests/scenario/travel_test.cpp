// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "runtime/units.hpp"
#include "tests/support/chain_of_four.hpp"

/// \file
/// The transfer of a model along a chain with faults of its hosts.

using namespace millrace;
using namespace millrace::test;

namespace {

/// Applies a fault to the host after the source, to a middle host and to the
/// last host, each at four times: before the first chunk, early, in the middle,
/// and just before the end.
void for_each_fate(
  const std::function<void(chain_of_four&, const std::string& victim)>& f) {
  for (std::string victim : {"w2", "w4", "w5"})
    for (size_t phase : {0, 1, 6, 11}) {
      CAPTURE(victim);
      CAPTURE(phase);
      chain_of_four x;
      x.until(victim, phase);
      f(x, victim);
    }
}

/// Returns true if a host must keep the last copy of a model.
bool keeps_a_last_copy(chain_of_four& x, const std::string& node) {
  auto cache =
    x.c.ask_actor<cache_status, cache_actor>(node + "/cache", get_cache{}, 5ms);
  return cache
         && std::any_of(cache->bundles.begin(), cache->bundles.end(),
                        [](auto& y) { return y.last; });
}

} // namespace

TEST_CASE("FP-44, FP-45, FP-46, FP-50: a chain of four hosts gets a model in"
          " little more time than one host and each sends it at most once") {
  chain_of_four x;
  auto& world = x.c.inside().world();
  auto begun = world.now();
  for (auto& node : all_receivers)
    x.until(node, chunks);
  auto took = world.now() - begun;
  MESSAGE("all have it after " << format_duration(to_us(took)));
  // Three more hops of one chunk each, plus messages before and after.
  CHECK(took >= (chunks + 3) * 10ms);
  CHECK(took < (chunks + 3) * 10ms + 60ms);
  x.c.advance(100ms);
  for (auto& node : all_receivers) {
    CAPTURE(node);
    CHECK(x.has_all(node, true));
    CHECK(x.twice(node) == 0);
  }
  CHECK(x.given
        == std::map<std::string, size_t>{
          {"w1", chunks}, {"w2", chunks}, {"w3", chunks}, {"w4", chunks}});
}

TEST_CASE("QU-41: only one of two nodes on a host fetches a model until that"
          " node is lost") {
  for (size_t phase : {0, 1, 6, 11}) {
    CAPTURE(phase);
    chain_of_four x{"travels-shared"};
    x.until("w3", phase);
    CHECK(x.came["w5"].empty());
    if (phase > 0)
      x.c.kill("w3");
    else
      x.until("w3", chunks);
    CHECK(x.came["w5"].empty());
    x.c.advance(1s);
    x.check_others(phase > 0 ? "w3" : "");
  }
}

TEST_CASE("QU-41: the node that fetches for its host continues when the chain"
          " controller loses its state") {
  chain_of_four x{"travels-shared"};
  x.until("w3", 1);
  x.c.node("w3").crash("relay", 0); // it restarts
  x.until("w5", 6);
  auto before = x.came["w3"].size();
  x.c.crash("./chains");
  x.until("w5", chunks);
  CHECK(x.came["w3"].size() == before);
  x.c.advance(4s);
  x.check_others("w3");
  CHECK(x.has_all("w3", true));
}

TEST_CASE("FP-47: a large model reaches four hosts in little more time than one"
          " host") {
  constexpr size_t many = 80;
  chain_of_four x{"travels-far"};
  auto& world = x.c.inside().world();
  auto begun = world.now();
  for (auto& node : all_receivers)
    x.until(node, many);
  auto of_one = std::chrono::duration<double>{many * 10ms};
  auto took = std::chrono::duration<double>{world.now() - begun} / of_one;
  MESSAGE("in " << took << " of the time that its bytes take over one link");
  CHECK(took <= 1.096);
}

TEST_CASE("FP-48, FP-49, I18, P7: when any host of a chain is killed at any"
          " time the others get the whole model and no chunk twice") {
  for_each_fate([](auto& x, auto& victim) {
    x.c.kill(victim);
    x.c.advance(800ms);
    x.check_others(victim);
  });
}

TEST_CASE("P7: when any host of a chain hangs at any time the others get the"
          " whole model and the host gets it later") {
  for_each_fate([](auto& x, auto& victim) {
    x.c.node(victim).pause();
    x.c.advance(2s);
    x.check_others(victim);
    x.c.node(victim).resume();
    x.c.advance(3s);
    x.check(victim, false, 1);
  });
}

TEST_CASE("P7: when any host of a chain is cut off from its neighbours at any"
          " time all hosts get the whole model") {
  for_each_fate([](auto& x, auto& victim) {
    for (auto on : {true, false}) {
      for (std::string node : {"w1", "w2", "w3", "w4", "w5"})
        if (node != victim)
          x.cut(victim, node, on);
      x.c.advance(2s);
      on ? x.check_others(victim) : x.check(victim, false, 1);
    }
  });
}

TEST_CASE("P7: a host with a slow link does not delay the other hosts of its"
          " chain") {
  for_each_fate([](auto& x, auto& victim) {
    x.c.inside().network().set_speed(x.c.node(victim).host(), .01);
    x.c.advance(1200ms); // includes the timeout of 500 ms
    x.check_others(victim);
  });
}

TEST_CASE("P7: when any actor of a chain is lost at any time all hosts get the"
          " whole model") {
  for (std::string actor : {"front/chains", "w1/relay", "w1/cache", "w3/relay",
                            "w3/cache", "w5/relay"})
    for (size_t phase : {0, 1, 6, 11}) {
      CAPTURE(actor);
      CAPTURE(phase);
      chain_of_four x;
      x.until("w3", phase);
      auto slash = actor.find('/');
      auto host = actor.substr(0, slash);
      x.c.node(host).crash(actor.substr(slash + 1), 0);
      x.c.advance(4s);
      x.check_others(host);
      if (x.came.contains(host)) // the node may have restarted
        CHECK(x.has_all(host, true));
    }
}

TEST_CASE("I16, P8: a chunk with a changed byte is detected before use or"
          " forwarding and is fetched again") {
  for (std::string victim : {"w2", "w4", "w5"})
    for (size_t chunk : {0, 6, 11}) {
      CAPTURE(victim);
      CAPTURE(chunk);
      chain_of_four x;
      size_t left = 1;
      x.damage = [&](auto& to, size_t what, auto& content) {
        if (to != victim || what != chunk || left == 0)
          return content;
        --left;
        auto text = std::string{content.text()};
        text[text.size() / 2] ^= 1;
        return shared_bytes::copy_of(text);
      };
      x.c.advance(4s);
      CHECK(left == 0);
      x.check_others(victim);
      x.check(victim, true, 1);
      CHECK(x.came[victim][chunk] == 2);
    }
}

TEST_CASE("I20: after the loss of an actor of a host a missing copy is listed"
          " for at most one report interval") {
  using held = std::pair<std::string, std::string>; // node and content
  using holders = std::set<held>;
  for (std::string actor : {"front/chains", "w3/relay", "w3/cache"}) {
    CAPTURE(actor);
    chain_of_four x;
    x.c.advance(10s);
    auto said = [&] {
      holders out;
      if (auto list = x.c.ask_actor<chain_list, chain_controller_actor>(
            "./chains", get_chains{}, 1ms))
        for (auto& y : list->copies)
          for (auto& node : y.hosts)
            out.emplace(node, y.content);
      return out;
    };
    auto has = [&] {
      holders out;
      for (std::string node : {"w1", "w2", "w3", "w4", "w5"})
        if (auto there = x.c.ask_actor<cache_status, cache_actor>(
              node + "/cache", get_cache{}, 1ms))
          for (auto& y : there->bundles)
            if (y.state != cache_place::arriving && !y.content.empty())
              out.emplace(node, y.content);
      return out;
    };
    auto all = has();
    REQUIRE(said() == all);
    auto slash = actor.find('/');
    x.c.node(actor.substr(0, slash)).crash(actor.substr(slash + 1), 0);
    auto& world = x.c.inside().world();
    std::map<held, timestamp> wrong; // since when
    for (int i = 0; i < 50; ++i) {
      auto there = has();
      auto told = said();
      std::erase_if(wrong, [&](auto& y) {
        return there.contains(y.first) || !told.contains(y.first);
      });
      for (auto& y : told)
        if (!there.contains(y))
          CHECK(world.now() - wrong.try_emplace(y, world.now()).first->second
                < 100ms);
    }
    CHECK(has() == all);
    CHECK(said() == all);
  }
}

TEST_CASE("FP-41, QU-49, I19: the controller lists the hosts with a whole copy"
          " through failures and the last host keeps it") {
  chain_of_four x;
  auto holders = [&] {
    std::set<std::string> out;
    auto list = x.c.ask_actor<chain_list, chain_controller_actor>(
      "./chains", get_chains{}, 5ms);
    REQUIRE(list);
    for (auto& y : list->copies)
      if (y.model == "travels")
        out.insert(y.hosts.begin(), y.hosts.end());
    return out;
  };
  auto is_last_of = [&](const std::string& node) {
    return keeps_a_last_copy(x, node);
  };
  CHECK(holders() == std::set<std::string>{"w1"});
  x.c.advance(10s);
  CHECK(holders() == std::set<std::string>{"w1", "w2", "w3", "w4", "w5"});
  for (auto& node : all_receivers)
    CHECK_FALSE(is_last_of(node));
  x.c.kill("w1"); // each other host could assume that it may evict the model
  x.c.advance(5s);
  for (auto& node : all_receivers)
    CHECK(is_last_of(node) == (node == "w2"));
  for (std::string node : {"w2", "w3"})
    x.c.kill(node);
  x.c.advance(5s);
  CHECK(holders() == std::set<std::string>{"w4", "w5"});
  CHECK_FALSE(is_last_of("w5"));
  x.c.kill("w4");
  x.c.advance(5s);
  CHECK(holders() == std::set<std::string>{"w5"});
  CHECK(is_last_of("w5"));
  // No disk has a copy of this model. The lost replica is also loaded there.
  auto at_w5 = [&] {
    auto status = x.c.ask_actor<node_status, supervisor_actor>(
      "w5/supervisor", get_status{}, 5ms);
    REQUIRE(status);
    return std::count_if(
      status->replicas.begin(), status->replicas.end(),
      [](auto& r) { return r.state == replica_condition::ready; });
  };
  x.c.advance(5s);
  CHECK(at_w5() == receivers + 1);
  x.c.node("w1").start(); // its disk has the model
  x.c.advance(10s);
  CHECK(holders() == std::set<std::string>{"w1", "w5"});
  CHECK_FALSE(is_last_of("w5"));
}

TEST_CASE("I19: the keeper of a last copy keeps it until the next keeper has"
          " confirmed") {
  chain_of_four x;
  x.c.advance(10s);
  x.c.kill("w1");
  x.c.kill("w2");
  x.c.advance(5s);
  REQUIRE(keeps_a_last_copy(x, "w3"));
  x.c.node("w2").start(); // w2 is preferred over w3
  have(x.c, x.wanted(receivers + 4, "travels"));
  auto began = x.c.inside().world().now();
  while (!keeps_a_last_copy(x, "w2"))
    REQUIRE(x.c.inside().world().now() - began < 20s);
  CHECK(keeps_a_last_copy(x, "w3"));
  x.c.advance(1s);
  CHECK(keeps_a_last_copy(x, "w3"));
  x.c.advance(2s);
  CHECK_FALSE(keeps_a_last_copy(x, "w3"));
  CHECK(keeps_a_last_copy(x, "w2"));
}

TEST_CASE("QU-46, FP-38: a start from host memory takes the load time and a"
          " fifth of a start with a transfer") {
  chain_of_four x{"travels-far"};
  auto seconds_to_start = [&](const std::string& node) {
    auto list =
      x.c.ask_actor<start_list, placement_actor>("./placement", get_starts{});
    REQUIRE(list);
    for (auto& start : list->starts) // latest first
      if (start.how.what.node == node) {
        REQUIRE(start.ready > 0us);
        return to_seconds(start.ready);
      }
    FAIL("it was never started there");
    return 0.;
  };
  x.c.advance(5s);
  auto from_another = seconds_to_start("w2");
  have(x.c, x.wanted(0, "travels-far"));
  x.c.advance(5s);
  auto given = x.given;
  have(x.c, x.wanted(receivers + 1, "travels-far"));
  x.c.advance(5s);
  auto from_memory = seconds_to_start("w2");
  CHECK(x.given == given); // no chunk is sent again
  MESSAGE(from_another << " s, " << from_memory << " s");
  CHECK(from_memory >= to_seconds(ten_ms.load));
  // The node reports changes at intervals of 20 ms.
  CHECK(from_memory < to_seconds(ten_ms.load + 25ms));
  CHECK(from_another > 5 * from_memory);
}

TEST_CASE("FP-51: the relay of a host runs from the start and outlives its"
          " transfers and sources") {
  chain_of_four x;
  auto relays = [&] {
    std::map<std::string, uint64_t> out;
    for (auto& node : all_receivers) {
      auto status = x.c.ask_actor<node_status, supervisor_actor>(
        node + "/supervisor", get_status{}, 5ms);
      REQUIRE(status);
      for (auto& actor : status->actors)
        if (actor.name == "relay" && actor.state == "running")
          out[node] = actor.restarts;
    }
    return out;
  };
  std::map<std::string, uint64_t> all;
  for (auto& node : all_receivers)
    all[node] = 0; // number of restarts
  CHECK(relays() == all);
  x.until("w2", 6);
  x.c.kill("w1");
  x.c.advance(5s);
  x.c.node("w1").start();
  x.c.advance(10s);
  x.check_others("");
  CHECK(relays() == all);
}

TEST_CASE("P7: a host with a link ten times slower than its source delays other"
          " hosts only briefly") {
  // Time relative to the transfer time over one normal link.
  auto slowest_of_others = [](chain_of_four& x, const std::string& slow) {
    constexpr size_t many = 80;
    auto begun = x.c.inside().world().now();
    for (auto& node : all_receivers)
      if (node != slow)
        x.until(node, many);
    return std::chrono::duration<double>{x.c.inside().world().now() - begun}
           / std::chrono::duration<double>{many * 10ms};
  };
  for (std::string slow : {"w3", "w4", "w5"}) {
    CAPTURE(slow);
    chain_of_four x{"travels-far"};
    x.c.inside().network().set_speed(x.c.node(slow).host(), .1);
    auto took = slowest_of_others(x, slow);
    MESSAGE(slow << " is slow: the others have it after " << took);
    CHECK(took < 2);
    x.c.advance(20s);
    x.check_others("", 4);
  }
}

TEST_CASE("P7: hosts that lose one packet in twenty get the whole model") {
  chain_of_four x;
  for (auto& [name, node] : x.c.inside().nodes())
    x.c.inside().network().set_loss(node->host(), .05);
  x.c.advance(20s);
  for (auto& [name, node] : x.c.inside().nodes())
    x.c.inside().network().set_loss(node->host(), 0);
  x.c.advance(1s);
  x.check_others("", 1);
}
