// SPDX-License-Identifier: Apache-2.0
#include "transport/peers.hpp"

#include <algorithm>
#include <utility>

#include "runtime/units.hpp"

namespace millrace {

peer_table::peer_table(std::string cluster, member self, link_settings settings,
                       std::vector<node_address> seeds, uint64_t start)
  : cluster_(std::move(cluster)),
    self_(std::move(self)),
    settings_(settings),
    seeds_(std::move(seeds)),
    start_(start) {
}

peer_actions peer_table::start() {
  peer_actions out;
  for (auto& x : seeds_)
    want(x, out);
  return out;
}

hello peer_table::make_hello(uint64_t link, uint64_t given_up) const {
  return {cluster_, self_, link, given_up, linked(), start_};
}

peer_table::peer* peer_table::at_address(const std::string& address) {
  for (auto& [name, p] : peers_)
    if (p.info.address == address)
      return &p;
  return nullptr;
}

/// Null when it is this node's own, or there are too many.
peer_table::connection* peer_table::want(const node_address& x,
                                         peer_actions& out) {
  heard_of_.erase(x.address);
  auto i = connections_.find(x.address);
  if (i == connections_.end()) {
    if (x.address == self_.address
        || connections_.size() >= settings_.max_peers + settings_.max_visits)
      return nullptr;
    i = connections_.try_emplace(x.address).first;
    i->second.node = x.node;
    out.push_back(connect_to{x.address, x.node});
  }
  i->second.visit = false;
  if (!x.node.empty())
    i->second.node = x.node;
  return &i->second;
}

/// One that is there already is not made shorter-lived.
peer_table::connection* peer_table::visit(const node_address& to, timestamp now,
                                          peer_actions& out) {
  if (auto i = connections_.find(to.address); i != connections_.end())
    return &i->second;
  auto visits = std::count_if(connections_.begin(), connections_.end(),
                              [](auto& x) { return x.second.visit; });
  if (static_cast<size_t>(visits) >= settings_.max_visits)
    return nullptr;
  auto* x = want(to, out);
  if (x != nullptr) {
    x->visit = true;
    x->since = now;
  }
  return x;
}

void peer_table::tend_connections(timestamp now, peer_actions& out) {
  std::vector<std::string> over;
  for (auto& [address, x] : connections_) {
    if (now - x.since <= settings_.visit_time)
      continue;
    if (x.visit)
      over.push_back(address);
    else if (std::exchange(x.failed, false))
      out.push_back(connect_to{address, x.node});
  }
  for (auto& address : over)
    forget(address, out);
  while (!heard_of_.empty()) {
    auto [address, node] = *heard_of_.begin();
    if (visit({address, node}, now, out) == nullptr)
      break;
    heard_of_.erase(address);
  }
}

void peer_table::forget(const std::string& address, peer_actions& out) {
  auto is_seed = std::any_of(seeds_.begin(), seeds_.end(),
                             [&](auto& x) { return x.address == address; });
  if (is_seed || connections_.erase(address) == 0)
    return;
  out.push_back(drop_connection{address});
  for (auto& [name, p] : peers_) // more than one may claim to be there
    if (p.info.address == address)
      p.connected = false;
}

void peer_table::refuse(const hello& x, const std::string& why, uint64_t known,
                        bool alive, timestamp now, peer_actions& out) {
  out.push_back(report_stranger{x.self, why});
  auto* connection = visit({x.self.address, x.self.name}, now, out);
  if (connection == nullptr)
    return;
  hello_rejected answer{x.self.name, x.self.incarnation, x.start, why, known,
                        alive};
  if (connection->stands)
    out.push_back(send_rejection{x.self.address, std::move(answer)});
  else
    connection->refusal = std::move(answer);
}

bool peer_table::make_room(peer_actions& out) {
  if (peers_.size() < settings_.max_peers)
    return true;
  auto longest = peers_.end();
  for (auto i = peers_.begin(); i != peers_.end(); ++i)
    if (!i->second.up && !i->second.connected
        && (longest == peers_.end()
            || i->second.last_heard < longest->second.last_heard))
      longest = i;
  if (longest == peers_.end())
    return false;
  end(longest->second, {"made room for others"}, out);
  forget(longest->second.info.address, out);
  peers_.erase(longest);
  return true;
}

void peer_table::meet(const std::vector<member>& others, timestamp now,
                      peer_actions& out) {
  for (auto& m : others)
    if (m.name != self_.name && !peers_.contains(m.name)
        && m.address != self_.address && !connections_.contains(m.address)
        && heard_of_.size() < settings_.max_peers)
      heard_of_.emplace(m.address, m.name);
  tend_connections(now, out);
}

void peer_table::greet(peer& p, timestamp now, peer_actions& out) {
  p.our_link = ++last_link_;
  p.our_link_accepted = false;
  p.last_greeted = now;
  connections_.at(p.info.address).greeted = p.our_link;
  out.push_back(
    send_hello{p.info.address, make_hello(p.our_link, p.given_up_link)});
}

peer_actions peer_table::on_connected(const std::string& address,
                                      timestamp now) {
  peer_actions out;
  auto i = connections_.find(address);
  if (i == connections_.end())
    return out; // dropped meanwhile
  auto& connection = i->second;
  connection.stands = true;
  if (connection.refusal) {
    out.push_back(send_rejection{address, std::move(*connection.refusal)});
    connection.refusal.reset();
  }
  if (auto* p = at_address(address)) {
    p->connected = true;
    greet(*p, now, out);
  } else { // who it is will be known from its own hello
    connection.greeted = ++last_link_;
    out.push_back(send_hello{address, make_hello(last_link_, 0)});
  }
  return out;
}

void peer_table::on_connect_failed(const std::string& address, timestamp now) {
  auto i = connections_.find(address);
  if (i == connections_.end())
    return;
  i->second.failed = true;
  i->second.since = now;
}

peer_actions peer_table::on_disconnected(const std::string& address,
                                         timestamp now) {
  peer_actions out;
  auto i = connections_.find(address);
  if (i == connections_.end())
    return out; // dropped meanwhile
  i->second.stands = false;
  if (auto* p = at_address(address)) {
    p->connected = false;
    give_up(*p, {"connection lost"}, now, out);
  }
  return out;
}

peer_actions peer_table::expel(const std::string& node, const std::string& why,
                               timestamp now) {
  peer_actions out;
  auto i = peers_.find(node);
  if (i == peers_.end())
    return out;
  end(i->second, {why}, out);
  i->second.connected = false;
  i->second.our_link = 0;
  auto& address = i->second.info.address;
  forget(address, out);
  if (auto seed = connections_.find(address); seed != connections_.end()) {
    seed->second.stands = false;
    seed->second.failed = true; // to be tried again
    seed->second.since = now;
    out.push_back(drop_connection{address});
  }
  return out;
}

/// Whether nothing more comes of a hello: it is refused, or this node will be.
bool peer_table::turn_away(const hello& x, timestamp now, peer_actions& out) {
  auto refuse_it = [&](const std::string& why, uint64_t known, bool alive) {
    refuse(x, why, known, alive, now, out);
    return true;
  };
  if (x.cluster != cluster_)
    return refuse_it(
      "this is cluster '" + cluster_ + "', not '" + x.cluster + "'", 0, false);
  if (x.self.name == self_.name) {
    // The other sees the same and comes to the opposite conclusion.
    if (std::pair{up_count() > 0, start_}
        > std::pair{!x.members.empty(), x.start})
      return refuse_it("this node has that name", self_.incarnation, true);
    visit({x.self.address, x.self.name}, now, out);
    return true;
  }
  auto i = peers_.find(x.self.name);
  if (i == peers_.end())
    return !make_room(out)
           && refuse_it("no more than " + std::to_string(settings_.max_peers)
                          + " nodes are known at once",
                        0, false);
  auto& p = i->second;
  auto follows =
    x.self.incarnation > p.info.incarnation
    || (x.self.incarnation == p.info.incarnation && x.start == p.start);
  return !follows
         && refuse_it("a start of that node is known that is not earlier",
                      p.info.incarnation, p.up);
}

peer_actions peer_table::on_hello(const hello& x, timestamp now) {
  peer_actions out;
  auto is_itself = x.start == start_ && x.self.name == self_.name;
  if (is_itself || x.link == 0 || turn_away(x, now, out))
    return out;
  auto [i, fresh] = peers_.try_emplace(x.self.name);
  auto& p = i->second;
  if (fresh) {
    p.info = x.self;
  } else if (x.self.incarnation > p.info.incarnation) {
    p.connected = false; // to the earlier start
    give_up(p, {"started again"}, now, out);
    if (p.info.address != x.self.address)
      forget(p.info.address, out);
    p = peer{};
  } else if (x.link <= std::max(p.their_link, p.given_up_link)) {
    if (x.link == p.their_link)
      meet(x.members, now, out); // said again because there are new ones
    return out;
  } else if (p.their_link != 0) {
    end(p, {.reason = "started the link anew", .returns = true}, out);
  }
  p.info = x.self;
  p.start = x.start;
  p.their_link = x.link;
  p.last_heard = now;
  auto* connection = want({x.self.address, x.self.name}, out);
  p.connected = connection != nullptr && connection->stands;
  // Else the hello that is on its way, or was heard, still counts.
  if (p.connected && p.our_link != 0 && p.our_link <= x.given_up)
    greet(p, now, out);
  if (p.connected && p.our_link == 0) {
    p.our_link = connection->greeted;
    p.last_greeted = now;
  }
  meet(x.members, now, out);
  if (p.connected)
    out.push_back(send_heartbeat{x.self.address, {p.their_link}});
  settle(p, out);
  return out;
}

peer_table::peer* peer_table::known(const origin& x) {
  auto i = peers_.find(x.node);
  auto is_it = i != peers_.end() && i->second.info.incarnation == x.incarnation
               && i->second.start == x.start;
  return is_it ? &i->second : nullptr;
}

peer_actions peer_table::on_heartbeat(const origin& from, const heartbeat& x,
                                      timestamp now) {
  peer_actions out;
  auto* found = known(from);
  if (found == nullptr)
    return out;
  auto& p = *found;
  p.last_heard = now;
  if (x.link == p.our_link && x.link != 0) {
    p.our_link_accepted = true;
    settle(p, out);
  } else if (p.our_link_accepted) {
    give_up(p, {"gave up the link"}, now, out);
  } else if (p.connected && now - p.last_greeted > settings_.timeout) {
    give_up(p, {"does not accept the link"}, now, out); // our hello was lost
  }
  return out;
}

peer_actions peer_table::on_goodbye(const origin& from, timestamp now) {
  peer_actions out;
  auto* p = known(from);
  if (p == nullptr)
    return out;
  auto was_linked = p->up || p->their_link != 0;
  give_up(*p, {.reason = "left", .left = true}, now, out);
  if (!was_linked) // its hanging up was heard before
    out.push_back(report_down{p->info, "left", true});
  return out;
}

peer_actions peer_table::on_hello_rejected(const hello_rejected& x) const {
  if (x.node != self_.name || x.incarnation != self_.incarnation
      || x.start != start_)
    return {}; // meant for an earlier start of this node
  return {report_rejected{x}};
}

peer_actions peer_table::on_tick(timestamp now) {
  peer_actions out;
  tend_connections(now, out);
  // Who stood still itself has not listened: what was said waits to be read.
  auto stood_still = now - last_tick_ > settings_.timeout;
  last_tick_ = now;
  for (auto& [name, p] : peers_) {
    if (stood_still)
      p.last_heard = now;
    if (p.their_link != 0 && now - p.last_heard > settings_.timeout)
      give_up(p, {"no heartbeat for " + format_duration(settings_.timeout)},
              now, out);
    else if (p.connected && p.their_link == 0
             && now - p.last_greeted > settings_.visit_time)
      greet(p, now, out); // our hello was lost, or not listened to
    if (p.connected)
      out.push_back(send_heartbeat{p.info.address, {p.their_link}});
  }
  return out;
}

void peer_table::settle(peer& p, peer_actions& out) {
  auto both = p.connected && p.their_link != 0 && p.our_link_accepted;
  if (both && !p.up) {
    p.up = true;
    out.push_back(report_up{p.info});
    for (auto& [name, other] : peers_)
      if (other.up && &other != &p)
        out.push_back(send_hello{
          other.info.address, make_hello(other.our_link, other.given_up_link)});
  }
}

void peer_table::end(peer& p, const parting& how, peer_actions& out) {
  // What it said before its link was up both ways has to go as well.
  auto heard = p.their_link != 0;
  p.given_up_link = std::max(p.given_up_link, p.their_link);
  p.their_link = 0;
  p.our_link_accepted = false;
  if (p.up || heard)
    out.push_back(report_down{p.info, how.reason, how.left, how.returns});
  p.up = false;
}

void peer_table::give_up(peer& p, const parting& how, timestamp now,
                         peer_actions& out) {
  end(p, how, out);
  p.our_link = 0;
  if (p.connected)
    greet(p, now, out);
}

bool peer_table::accepts(const origin& x) {
  auto* p = known(x);
  return p != nullptr && p->their_link != 0;
}

const std::string* peer_table::address_of(const std::string& node,
                                          uint64_t incarnation) const {
  auto i = peers_.find(node);
  if (i == peers_.end() || i->second.info.incarnation != incarnation
      || !i->second.connected)
    return nullptr;
  return &i->second.info.address;
}

const member* peer_table::find(const std::string& node) const {
  auto i = peers_.find(node);
  return i == peers_.end() ? nullptr : &i->second.info;
}

std::vector<member> peer_table::linked() const {
  std::vector<member> out;
  for (auto& [name, p] : peers_)
    if (p.up)
      out.push_back(p.info);
  return out;
}

size_t peer_table::up_count() const {
  return linked().size();
}

} // namespace millrace
