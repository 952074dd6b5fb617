// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/peer_network.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P4: a silent node is given up after the timeout and both sides link "
          "again when it wakes") {
  peer_network net;
  net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  net.events.clear();
  net.frozen.insert("b");
  net.run(1500ms);
  CHECK_FALSE(net.linked("a", "b"));
  net.frozen.clear();
  net.run(2s);
  CHECK(net.linked("a", "b"));
  CHECK(net.linked("b", "a"));
  REQUIRE(net.events.size() == 4);
  CHECK(net.events[0].find("a-b: no heartbeat for 400 ms") == 0);
  CHECK(net.events[1].find("b-a: ") == 0);
}

TEST_CASE("peers: an expelled node that receives no messages is linked again "
          "when it may be") {
  for (auto lasting : {200ms, 2000ms}) { // within and beyond the timeout
    CAPTURE(lasting.count());
    peer_network net;
    net.add("a", {});
    net.add("b", {"tcp://a"});
    net.run(1s);
    REQUIRE(net.linked("a", "b"));
    net.unheard.insert("b");
    net.expel("a", "b");
    net.run(lasting);
    CHECK_FALSE(net.linked("a", "b"));
    net.unheard.clear();
    net.run(6s);
    CHECK(net.linked("a", "b"));
    CHECK(net.linked("b", "a"));
  }
}

TEST_CASE(
  "peers: messages of a given-up node are refused until it starts a new link") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b"), 5, 0, {}, 0}, at(0s));
  a.on_connected("tcp://b", at(0s));
  CHECK(a.accepts({"b", 1, 0}));
  tick(a, 0s, 5s);
  CHECK_FALSE(a.accepts({"b", 1, 0}));
  a.on_hello({"c", make_member("b"), 5, 0, {}, 0}, at(5s));
  CHECK_FALSE(a.accepts({"b", 1, 0}));
  a.on_hello({"c", make_member("b"), 6, 0, {}, 0}, at(5s));
  CHECK(a.accepts({"b", 1, 0}));
}

TEST_CASE("peers: if two nodes claim one address neither stays connected after "
          "one moves") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  auto b = make_member("b"), c = make_member("c");
  c.address = b.address;
  a.on_hello({"c", b, 1, 0, {}, 0}, at(0s));
  a.on_connected(b.address, at(0s));
  a.on_hello({"c", c, 1, 0, {}, 0}, at(0s));
  auto moved = make_member("b", 2);
  moved.address = "tcp://elsewhere";
  auto todo = a.on_hello({"c", moved, 1, 0, {}, 0}, at(0s));
  CHECK(find<drop_connection>(todo) != nullptr);
  tick(a, 0s, 400ms);
  // c receives no hello
  CHECK(find<report_down>(a.on_tick(at(500ms))) != nullptr);
  CHECK_FALSE(a.accepts({"c", 1, 0}));
}

TEST_CASE("peers: messages before the link was up end with the old link") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b"), 1, 0, {}, 0}, at(0s));
  CHECK(a.up_count() == 0);
  auto todo = a.on_hello({"c", make_member("b"), 2, 0, {}, 0}, at(1s));
  REQUIRE(find<report_down>(todo) != nullptr);
  CHECK(find<report_down>(todo)->reason == "started the link anew");
  CHECK(find<report_down>(todo)->returns);
}

TEST_CASE("peers: a node that was suspended itself gives up no peer for "
          "messages it has not read yet") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b"), 1, 0, {}, 0}, at(0s));
  tick(a, 0s, 300ms);
  CHECK(find<report_down>(a.on_tick(at(4s))) == nullptr);
  CHECK(a.accepts({"b", 1, 0}));
  tick(a, 4s, 5s); // b sends no message
  CHECK_FALSE(a.accepts({"b", 1, 0}));
}

TEST_CASE(
  "peers: a node whose connection ends before its goodbye is read has left") {
  peer_network net;
  auto& a = net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  auto lost = a.on_disconnected("tcp://b", at(1s));
  REQUIRE(find<report_down>(lost) != nullptr);
  CHECK_FALSE(find<report_down>(lost)->left);
  auto left = a.on_goodbye({"b", 1, 2}, at(1s));
  REQUIRE(find<report_down>(left) != nullptr);
  CHECK(find<report_down>(left)->left);
}
