// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/peer_network.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("peers: crossing or repeated hellos settle into one link") {
  peer_network net;
  net.add("a", {"tcp://a"});
  net.add("b", {"tcp://a"});
  net.run(2s);
  for (auto& [name, other] : {std::pair{"a", "b"}, std::pair{"b", "a"}})
    for (int i = 0; i < 3; ++i)
      net.connect_again(name, other);
  net.run(3s);
  CHECK(net.linked("a", "b"));
  CHECK(net.linked("b", "a"));
  net.events.clear();
  net.run(10s);
  CHECK(net.events.empty());
}

TEST_CASE("peers: nodes with one common seed all link with each other") {
  peer_network net;
  net.add("a", {"tcp://a"});
  net.add("b", {"tcp://a"});
  net.add("c", {"tcp://a"});
  net.run(2s);
  for (auto x : {"a", "b", "c"})
    for (auto y : {"a", "b", "c"})
      if (std::string{x} != y) {
        CAPTURE(x);
        CAPTURE(y);
        CHECK(net.linked(x, y));
      }
  CHECK(net.events.size() == 6);
}

TEST_CASE("peers: a lost connection ends the link at once") {
  peer_network net;
  net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  net.events.clear();
  net.remove("b");
  CHECK(net.events == std::vector<std::string>{"a-b: connection lost"});
}

TEST_CASE("peers: a node that returns is a new start and messages of the old "
          "start are refused") {
  peer_network net;
  auto& a = net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  net.remove("b");
  net.add("b", {"tcp://a"}, 2);
  net.run(2s);
  CHECK(net.linked("a", "b"));
  CHECK(a.accepts({"b", 2, 3}));
  CHECK_FALSE(a.accepts({"b", 1, 2}));
  hello late{"c", make_member("b", 1), 99, 0, {}, 0};
  CHECK(find<report_up>(a.on_hello(late, at(9s))) == nullptr);
  CHECK(a.accepts({"b", 2, 3}));
}

TEST_CASE(
  "peers: a node of another cluster or with this node's name is refused") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  auto todo = a.on_hello({"other", make_member("b"), 1, 0, {}, 2}, at(0s));
  REQUIRE(find<report_stranger>(todo) != nullptr);
  CHECK(find<report_stranger>(todo)->reason
        == "this is cluster 'c', not 'other'");
  todo = a.on_hello({"c", make_member("a", 7), 1, 0, {}, 0}, at(0s));
  CHECK(find<report_stranger>(todo) != nullptr);
  CHECK_FALSE(a.accepts({"a", 7, 0}));
  CHECK_FALSE(a.accepts({"b", 1, 2}));
}

TEST_CASE("peers: of two nodes with one name one is refused and a node with "
          "links stays") {
  auto refuses = [](const peer_actions& todo) {
    return find<report_stranger>(todo) != nullptr;
  };
  peer_table a{"c", make_member("a"), {}, {}, 1};
  peer_table twin{"c", make_member("a"), {}, {}, 2};
  hello from_a{"c", make_member("a"), 1, 0, {}, 1};
  hello from_twin{"c", make_member("a"), 1, 0, {}, 2};
  CHECK_FALSE(refuses(a.on_hello(from_twin, at(0s))));
  CHECK(refuses(twin.on_hello(from_a, at(0s))));
  from_a.members = {make_member("b")};
  CHECK_FALSE(refuses(twin.on_hello(from_a, at(0s))));
}

TEST_CASE("peers: a refusal that is overtaken by a later start does not "
          "suppress its hello") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b", 2), 1, 0, {}, 5}, at(0s));
  a.on_hello({"c", make_member("b", 1), 1, 0, {}, 6}, at(1s));
  auto todo = a.on_connected("tcp://b", at(2s));
  CHECK(find<send_rejection>(todo) != nullptr);
  REQUIRE(find<send_hello>(todo) != nullptr);
  auto link = find<send_hello>(todo)->what.link;
  a.on_hello({"c", make_member("b", 3), 1, 0, {}, 7}, at(2s));
  todo = a.on_heartbeat({"b", 3, 7}, {link}, at(2s));
  CHECK(find<report_up>(todo) != nullptr);
}

TEST_CASE("peers: a node that connects to itself reports no stranger") {
  peer_table a{"c", make_member("a"), {}, {{"tcp://a-too", {}}}, 1};
  CHECK(a.on_hello({"c", make_member("a"), 1, 0, {}, 1}, at(0s)).empty());
}

TEST_CASE("peers: a start that is not later than the last known one is refused "
          "with that number") {
  for (uint64_t again : {1u, 2u}) {
    CAPTURE(again);
    peer_network net;
    net.add("a", {});
    net.add("b", {"tcp://a"}, 2);
    net.run(1s);
    net.remove("b");
    net.add("b", {"tcp://a"}, again); // its data directory was lost
    net.events.clear();
    net.run(2s);
    CHECK_FALSE(net.linked("a", "b"));
    CHECK(std::ranges::count(net.events, "b refused: 2") > 0);
    net.remove("b");
    net.add("b", {"tcp://a"}, 3);
    net.run(2s);
    CHECK(net.linked("a", "b"));
  }
}

TEST_CASE("peers: while a node is linked another start under its name is "
          "refused as alive") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b", 2), 1, 0, {}, 5}, at(0s));
  auto todo = a.on_connected("tcp://b", at(0s));
  a.on_heartbeat({"b", 2, 5}, {find<send_hello>(todo)->what.link}, at(0s));
  REQUIRE(a.up_count() == 1);
  todo = a.on_hello({"c", make_member("b", 1), 1, 0, {}, 6}, at(1s));
  REQUIRE(find<send_rejection>(todo) != nullptr);
  CHECK(find<send_rejection>(todo)->what.alive);
  CHECK(a.accepts({"b", 2, 5}));
}

TEST_CASE("peers: a refusal of another start is ignored") {
  peer_table a{"c", make_member("a", 2), {}, {}, 1};
  CHECK(a.on_hello_rejected({"a", 1, 1, "", 3, false}).empty());
  CHECK(a.on_hello_rejected({"a", 2, 9, "", 3, false}).empty());
  CHECK(a.on_hello_rejected({"a", 2, 1, "", 3, false}).size() == 1);
}

TEST_CASE("P12: connection attempts to nodes known only from other nodes are "
          "limited in number and time") {
  link_settings few;
  few.max_visits = 2;
  few.visit_time = 5s;
  peer_table a{"c", make_member("a"), few, {}, 1};
  hello x{"c", make_member("b"), 1, 0, {}, 2};
  for (auto name : {"m1", "m2", "m3", "m4", "m5"})
    x.members.push_back(make_member(name));
  auto tries = [](const peer_actions& todo) {
    std::set<std::string> out;
    for (auto& y : todo)
      if (auto* c = std::get_if<connect_to>(&y))
        out.insert(c->address);
    return out;
  };
  using names = std::set<std::string>;
  CHECK(tries(a.on_hello(x, at(0s)))
        == names{"tcp://b", "tcp://m1", "tcp://m2"});
  a.on_connected("tcp://m1", at(1s));
  // m1 turns out to be a node, so the next address is tried.
  CHECK(tries(a.on_hello({"c", make_member("m1"), 1, 0, {}, 3}, at(1s)))
        == names{"tcp://m3"});
  auto todo = a.on_tick(at(5100ms));
  CHECK(tries(todo) == names{"tcp://m4"});
  REQUIRE(find<drop_connection>(todo) != nullptr);
  CHECK(find<drop_connection>(todo)->address == "tcp://m2");
}

TEST_CASE("P12: strangers keep no connections") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  auto todo = a.on_hello({"other", make_member("b"), 1, 0, {}, 2}, at(0s));
  CHECK(find<connect_to>(todo) != nullptr); // to send the rejection
  CHECK(find<drop_connection>(a.on_tick(at(4s))) == nullptr);
  CHECK(find<drop_connection>(a.on_tick(at(6s))) != nullptr);
}

TEST_CASE("peers: a full table drops the node that is gone longest and refuses "
          "if none is gone") {
  peer_table a{"c", make_member("a"), {100ms, 1s, 2}, {}, 1};
  a.on_hello({"c", make_member("b"), 1, 0, {}, 2}, at(0s));
  a.on_connected("tcp://b", at(0s));
  a.on_hello({"c", make_member("c"), 1, 0, {}, 3}, at(1s));
  auto todo = a.on_hello({"c", make_member("d"), 1, 0, {}, 4}, at(2s));
  REQUIRE(find<drop_connection>(todo) != nullptr);
  CHECK(find<drop_connection>(todo)->address == "tcp://c");
  CHECK(a.find("c") == nullptr);
  a.on_connected("tcp://d", at(2s));
  todo = a.on_hello({"c", make_member("e"), 1, 0, {}, 5}, at(3s));
  REQUIRE(find<report_stranger>(todo) != nullptr);
  CHECK(find<report_stranger>(todo)->reason
        == "no more than 2 nodes are known at once");
  CHECK_FALSE(a.accepts({"e", 1, 5}));
}

TEST_CASE("peers: a heartbeat with another link number ends the link") {
  peer_network net;
  auto& a = net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  auto todo = a.on_heartbeat({"b", 1, 2}, {0}, at(1s));
  CHECK(find<report_down>(todo) != nullptr);
  CHECK(find<send_hello>(todo) != nullptr);
}

TEST_CASE(
  "peers: a heartbeat that arrives before our hello does not end the link") {
  peer_table a{"c", make_member("a"), {}, {{"tcp://b", {}}}, 1};
  a.start();
  a.on_connected("tcp://b", at(0s));
  a.on_hello({"c", make_member("b"), 1, 0, {}, 0}, at(0s));
  CHECK(a.on_heartbeat({"b", 1, 0}, {0}, at(10ms)).empty());
  CHECK(a.accepts({"b", 1, 0}));
  CHECK_FALSE(a.on_heartbeat({"b", 1, 0}, {0}, at(2s)).empty());
}

TEST_CASE("peers: messages of another start with the same name and count do "
          "not affect the linked one") {
  peer_network net;
  auto& a = net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  CHECK(a.on_heartbeat({"b", 1, 99}, {0}, at(1s)).empty());
  CHECK(a.on_goodbye({"b", 1, 99}, at(1s)).empty());
  CHECK_FALSE(a.accepts({"b", 1, 99}));
  CHECK(a.accepts({"b", 1, 2}));
}

TEST_CASE("peers: a connection that failed for lack of sockets is tried again "
          "even for a seed") {
  peer_table a{"c", make_member("a"), {}, {{"tcp://b", {}}}, 1};
  a.start();
  a.on_connect_failed("tcp://b", at(0s));
  CHECK(find<connect_to>(a.on_tick(at(4s))) == nullptr);
  auto todo = a.on_tick(at(6s));
  REQUIRE(find<connect_to>(todo) != nullptr);
  CHECK(find<connect_to>(todo)->address == "tcp://b");
  CHECK(find<connect_to>(a.on_tick(at(7s))) == nullptr);
}

TEST_CASE(
  "P12: connections to strangers are limited for any number of hellos") {
  link_settings few;
  few.max_visits = 2;
  peer_table a{"c", make_member("a"), few, {}, 1};
  size_t connections = 0;
  for (int i = 0; i < 10; ++i) {
    auto todo = a.on_hello(
      {"other", make_member("s" + std::to_string(i)), 1, 0, {}, 2}, at(0s));
    CHECK(find<report_stranger>(todo) != nullptr);
    connections += find<connect_to>(todo) != nullptr;
  }
  CHECK(connections == 2);
}

TEST_CASE(
  "peers: a node that is dropped for room is reported down to its listeners") {
  peer_table a{"c", make_member("a"), {100ms, 1s, 1}, {}, 1};
  a.on_hello({"c", make_member("b"), 1, 0, {}, 2}, at(0s));
  CHECK(a.accepts({"b", 1, 2}));
  auto todo = a.on_hello({"c", make_member("d"), 1, 0, {}, 3}, at(1s));
  REQUIRE(find<report_down>(todo) != nullptr);
  CHECK(find<report_down>(todo)->peer.name == "b");
}
