// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "tests/support/builders.hpp"
#include "transport/peers.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

member make_member(const std::string& name, uint64_t incarnation = 1) {
  return {name, incarnation, "tcp://" + name, {"worker"}, ""};
}

template <class T>
const T* find(const peer_actions& xs) {
  for (auto& x : xs)
    if (auto* y = std::get_if<T>(&x))
      return y;
  return nullptr;
}

/// Tables that hear each other, as far as the wires between them are whole.
class network {
public:
  peer_table& add(const std::string& name,
                  const std::vector<std::string>& addresses,
                  uint64_t incarnation = 1) {
    nodes_.erase(name);
    std::vector<node_address> seeds;
    for (auto& x : addresses)
      seeds.push_back({x, {}});
    auto [i, fresh] = nodes_.emplace(
      name, node{{name, incarnation, starts_ + 1},
                 peer_table{
                   "c", make_member(name, incarnation), {}, seeds, ++starts_},
                 {},
                 {},
                 {}});
    carry_out(name, i->second.table.start());
    return i->second.table;
  }

  void remove(const std::string& name) {
    nodes_.erase(name);
    for (auto& [other, x] : nodes_)
      if (x.connected.erase("tcp://" + name) != 0)
        carry_out(other, x.table.on_disconnected("tcp://" + name, now_));
  }

  void run(microseconds time) {
    for (auto end = now_ + time; now_ < end; now_ += 100ms) {
      for (auto& [name, x] : nodes_)
        if (!frozen.contains(name))
          tick(name, x);
    }
  }

  /// A connection that is reported again, as after a pause.
  void connect_again(const std::string& name, const std::string& other) {
    carry_out(name, nodes_.at(name).table.on_connected("tcp://" + other, now_));
  }

  bool linked(const std::string& a, const std::string& b) {
    auto xs = nodes_.at(a).table.linked();
    return std::any_of(xs.begin(), xs.end(),
                       [&](auto& m) { return m.name == b; });
  }

  void expel(const std::string& name, const std::string& other) {
    carry_out(name, nodes_.at(name).table.expel(other, "not allowed", now_));
  }

  std::set<std::string> frozen;    ///< say and hear nothing, keep TCP
  std::set<std::string> unheard;   ///< what they say is not listened to
  std::vector<std::string> events; ///< "a+b", "a-b: reason"

private:
  struct node {
    origin start;
    peer_table table;
    std::set<std::string> wanted;
    std::set<std::string> connected;
    std::vector<std::function<void()>> inbox; ///< while frozen
  };

  void tick(const std::string& name, node& x) {
    auto inbox = std::move(x.inbox);
    x.inbox.clear();
    for (auto& message : inbox)
      message();
    for (auto& address : std::set{x.wanted})
      if (nodes_.contains(address.substr(6))
          && x.connected.insert(address).second)
        carry_out(name, x.table.on_connected(address, now_));
    carry_out(name, x.table.on_tick(now_));
  }

  void carry_out(const std::string& name, const peer_actions& todo) {
    for (auto& action : todo) {
      auto& x = nodes_.at(name);
      if (auto* c = std::get_if<connect_to>(&action))
        x.wanted.insert(c->address);
      if (auto* d = std::get_if<drop_connection>(&action)) {
        x.wanted.erase(d->address);
        x.connected.erase(d->address);
      }
      if (auto* h = std::get_if<send_hello>(&action))
        send(x, h->address, [what = h->what](peer_table& to, timestamp now) {
          return to.on_hello(what, now);
        });
      if (auto* b = std::get_if<send_beat>(&action))
        send(x, b->address,
             [what = b->what, from = x.start](peer_table& to, timestamp now) {
               return to.on_beat(from, what, now);
             });
      if (auto* r = std::get_if<send_refusal>(&action))
        send(x, r->address, [what = r->what](peer_table& to, timestamp) {
          return to.on_refused(what);
        });
      if (auto* r = std::get_if<report_refused>(&action))
        events.push_back(name + " refused: " + std::to_string(r->what.known)
                         + (r->what.alive ? " alive" : ""));
      if (auto* u = std::get_if<report_up>(&action))
        events.push_back(name + "+" + u->peer.name);
      if (auto* d = std::get_if<report_down>(&action))
        events.push_back(name + "-" + d->peer.name + ": " + d->reason);
    }
  }

  template <class F>
  void send(node& from, const std::string& address, F f) {
    auto to = address.substr(6);
    auto i = nodes_.find(to);
    if (i == nodes_.end() || !from.connected.contains(address)
        || unheard.contains(from.start.node))
      return;
    i->second.inbox.push_back(
      [this, to, f] { carry_out(to, f(nodes_.at(to).table, now_)); });
  }

  std::map<std::string, node> nodes_;
  timestamp now_ = at(0s);
  uint64_t starts_ = 0;
};

} // namespace

TEST_CASE("peers: hellos that cross, or are said twice, come to an end") {
  network net;
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

TEST_CASE("peers: nodes that know one seed all meet") {
  network net;
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
  network net;
  net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  net.events.clear();
  net.remove("b");
  CHECK(net.events == std::vector<std::string>{"a-b: connection lost"});
}

TEST_CASE("peers: a node that comes back is a new start, and the old one's"
          " messages count no more") {
  network net;
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

TEST_CASE("P4: a silent node is given up after the timeout, and both sides"
          " start anew when it wakes") {
  network net;
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

TEST_CASE("peers: a node that was expelled and not listened to is met again"
          " when it may be") {
  for (auto lasting : {200ms, 2000ms}) { // not noticed, and noticed
    CAPTURE(lasting.count());
    network net;
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

TEST_CASE("peers: what a given-up node said before it knows is not accepted") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b"), 5, 0, {}, 0}, at(0s));
  a.on_connected("tcp://b", at(0s));
  CHECK(a.accepts({"b", 1, 0}));
  a.on_tick(at(5s));
  CHECK_FALSE(a.accepts({"b", 1, 0}));
  a.on_hello({"c", make_member("b"), 5, 0, {}, 0}, at(5s));
  CHECK_FALSE(a.accepts({"b", 1, 0}));
  a.on_hello({"c", make_member("b"), 6, 0, {}, 0}, at(5s));
  CHECK(a.accepts({"b", 1, 0}));
}

TEST_CASE("peers: of two nodes that claim one address none stays connected when"
          " one moves away") {
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
  CHECK(find<report_down>(a.on_tick(at(5s))) != nullptr); // greets nobody there
  CHECK_FALSE(a.accepts({"c", 1, 0}));
}

TEST_CASE("peers: another cluster's node, and one with this node's name, are"
          " refused") {
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

TEST_CASE("peers: of two nodes with one name the one without links is refused,"
          " else one of them") {
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

TEST_CASE("peers: a refusal that finds a later start does not keep the hello"
          " from it") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b", 2), 1, 0, {}, 5}, at(0s));
  a.on_hello({"c", make_member("b", 1), 1, 0, {}, 6}, at(1s));
  auto todo = a.on_connected("tcp://b", at(2s));
  CHECK(find<send_refusal>(todo) != nullptr);
  REQUIRE(find<send_hello>(todo) != nullptr);
  auto link = find<send_hello>(todo)->what.link;
  a.on_hello({"c", make_member("b", 3), 1, 0, {}, 7}, at(2s));
  todo = a.on_beat({"b", 3, 7}, {link}, at(2s));
  CHECK(find<report_up>(todo) != nullptr);
}

TEST_CASE("peers: a node that meets itself says nothing of it") {
  peer_table a{"c", make_member("a"), {}, {{"tcp://a-too", {}}}, 1};
  CHECK(a.on_hello({"c", make_member("a"), 1, 0, {}, 1}, at(0s)).empty());
}

TEST_CASE("peers: a start that is not later than the last one known is told"
          " which one that is") {
  for (uint64_t again : {1u, 2u}) {
    CAPTURE(again);
    network net;
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

TEST_CASE("peers: while a node is linked, another start under its name is told"
          " that it is alive") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b", 2), 1, 0, {}, 5}, at(0s));
  auto todo = a.on_connected("tcp://b", at(0s));
  a.on_beat({"b", 2, 5}, {find<send_hello>(todo)->what.link}, at(0s));
  REQUIRE(a.up_count() == 1);
  todo = a.on_hello({"c", make_member("b", 1), 1, 0, {}, 6}, at(1s));
  REQUIRE(find<send_refusal>(todo) != nullptr);
  CHECK(find<send_refusal>(todo)->what.alive);
  CHECK(a.accepts({"b", 2, 5}));
}

TEST_CASE("peers: a refusal of another start is none of this one's") {
  peer_table a{"c", make_member("a", 2), {}, {}, 1};
  CHECK(a.on_refused({"a", 1, 1, "", 3, false}).empty());
  CHECK(a.on_refused({"a", 2, 9, "", 3, false}).empty());
  CHECK(a.on_refused({"a", 2, 1, "", 3, false}).size() == 1);
}

TEST_CASE(
  "P12: of nodes that are only told of so many are tried at once, and not"
  " for ever") {
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
  // One of them turns out to be a node: the next is tried.
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
  CHECK(find<connect_to>(todo) != nullptr); // to tell it
  CHECK(find<drop_connection>(a.on_tick(at(4s))) == nullptr);
  CHECK(find<drop_connection>(a.on_tick(at(6s))) != nullptr);
}

TEST_CASE("peers: a full table forgets who has been gone longest, and refuses"
          " when nobody has gone") {
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

TEST_CASE("peers: a beat that does not know our link any more ends it") {
  network net;
  auto& a = net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  auto todo = a.on_beat({"b", 1, 2}, {0}, at(1s));
  CHECK(find<report_down>(todo) != nullptr);
  CHECK(find<send_hello>(todo) != nullptr);
}

TEST_CASE("peers: a beat that comes before our hello does not end the link") {
  peer_table a{"c", make_member("a"), {}, {{"tcp://b", {}}}, 1};
  a.start();
  a.on_connected("tcp://b", at(0s));
  a.on_hello({"c", make_member("b"), 1, 0, {}, 0}, at(0s));
  CHECK(a.on_beat({"b", 1, 0}, {0}, at(10ms)).empty());
  CHECK(a.accepts({"b", 1, 0}));
  CHECK_FALSE(a.on_beat({"b", 1, 0}, {0}, at(2s)).empty());
}

TEST_CASE("peers: what was heard before the link was up goes with it") {
  peer_table a{"c", make_member("a"), {}, {}, 1};
  a.on_hello({"c", make_member("b"), 1, 0, {}, 0}, at(0s));
  CHECK(a.up_count() == 0);
  auto todo = a.on_hello({"c", make_member("b"), 2, 0, {}, 0}, at(1s));
  REQUIRE(find<report_down>(todo) != nullptr);
  CHECK(find<report_down>(todo)->reason == "started the link anew");
}

TEST_CASE("peers: another start of the same name and count does not speak for"
          " the one that is linked") {
  network net;
  auto& a = net.add("a", {});
  net.add("b", {"tcp://a"});
  net.run(1s);
  CHECK(a.on_beat({"b", 1, 99}, {0}, at(1s)).empty());
  CHECK(a.on_goodbye({"b", 1, 99}, at(1s)).empty());
  CHECK_FALSE(a.accepts({"b", 1, 99}));
  CHECK(a.accepts({"b", 1, 2}));
}

TEST_CASE("peers: what there were no sockets for is tried again, a seed too") {
  peer_table a{"c", make_member("a"), {}, {{"tcp://b", {}}}, 1};
  a.start();
  a.on_connect_failed("tcp://b", at(0s));
  CHECK(find<connect_to>(a.on_tick(at(4s))) == nullptr);
  auto todo = a.on_tick(at(6s));
  REQUIRE(find<connect_to>(todo) != nullptr);
  CHECK(find<connect_to>(todo)->address == "tcp://b");
  CHECK(find<connect_to>(a.on_tick(at(7s))) == nullptr);
}

TEST_CASE("P12: however many strangers say hello, few are connected to") {
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

TEST_CASE("peers: who makes room is gone for those who heard it, too") {
  peer_table a{"c", make_member("a"), {100ms, 1s, 1}, {}, 1};
  a.on_hello({"c", make_member("b"), 1, 0, {}, 2}, at(0s));
  CHECK(a.accepts({"b", 1, 2}));
  auto todo = a.on_hello({"c", make_member("d"), 1, 0, {}, 3}, at(1s));
  REQUIRE(find<report_down>(todo) != nullptr);
  CHECK(find<report_down>(todo)->peer.name == "b");
}
