// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "tests/support/builders.hpp"
#include "transport/peers.hpp"

namespace millrace::test {

inline member make_member(const std::string& name, uint64_t incarnation = 1) {
  return {name, incarnation, "tcp://" + name, {"worker"}, ""};
}

template <class T>
const T* find(const peer_actions& xs) {
  for (auto& x : xs)
    if (auto* y = std::get_if<T>(&x))
      return y;
  return nullptr;
}

/// Calls tick() at the interval that the table requests.
inline void tick(peer_table& x, microseconds from, microseconds to) {
  for (auto t = from; t <= to; t += 100ms)
    x.on_tick(at(t));
}

/// Peer tables that exchange heartbeats over intact links.
class peer_network {
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

  /// Reports a connection again, as after a pause.
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

  std::set<std::string> frozen;    ///< silent nodes with TCP connections
  std::set<std::string> unheard;   ///< nodes with ignored messages
  std::vector<std::string> events; ///< "a+b", "a-b: reason"

private:
  struct node {
    origin start;
    peer_table table;
    std::set<std::string> wanted;
    std::set<std::string> connected;
    std::vector<std::function<void()>> inbox; ///< received while frozen
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
      if (auto* b = std::get_if<send_heartbeat>(&action))
        send(x, b->address,
             [what = b->what, from = x.start](peer_table& to, timestamp now) {
               return to.on_heartbeat(from, what, now);
             });
      if (auto* r = std::get_if<send_rejection>(&action))
        send(x, r->address, [what = r->what](peer_table& to, timestamp) {
          return to.on_hello_rejected(what);
        });
      if (auto* r = std::get_if<report_rejected>(&action))
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

} // namespace millrace::test
