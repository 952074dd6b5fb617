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

/// Null for this node's own address, or when there are too many connections.
peer_table::connection* peer_table::want(const node_address& address,
                                         peer_actions& out) {
  heard_of_.erase(address.address);
  auto i = connections_.find(address.address);
  if (i == connections_.end()) {
    if (address.address == self_.address
        || connections_.size() >= settings_.max_peers + settings_.max_visits)
      return nullptr;
    i = connections_.try_emplace(address.address).first;
    i->second.node = address.node;
    out.push_back(connect_to{address.address, address.node});
  }
  i->second.visit = false;
  if (!address.node.empty())
    i->second.node = address.node;
  return &i->second;
}

/// Does not shorten the life of an existing connection.
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
  for (auto& [name, p] : peers_) // several peers may claim the address
    if (p.info.address == address)
      p.connected = false;
}

void peer_table::refuse(const hello& greeting, const std::string& why,
                        uint64_t known, bool alive, timestamp now,
                        peer_actions& out) {
  out.push_back(report_stranger{greeting.self, why});
  auto* connection =
    visit({greeting.self.address, greeting.self.name}, now, out);
  if (connection == nullptr)
    return;
  hello_rejected answer{greeting.self.name,
                        greeting.self.incarnation,
                        greeting.start,
                        why,
                        known,
                        alive};
  if (connection->stands)
    out.push_back(send_rejection{greeting.self.address, std::move(answer)});
  else
    connection->refusal = std::move(answer);
}

bool peer_table::make_room(peer_actions& out) {
  if (peers_.size() < settings_.max_peers)
    return true;
  auto longest = peers_.end();
  for (auto i = peers_.begin(); i != peers_.end(); ++i)
    if (!i->second.is_up() && !i->second.connected
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
  } else { // the node's own hello will name it
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
    seed->second.failed = true; // retried by tend_connections
    seed->second.since = now;
    out.push_back(drop_connection{address});
  }
  return out;
}

/// Whether a hello is refused, or ignored because this node will be refused.
bool peer_table::turn_away(const hello& greeting, timestamp now,
                           peer_actions& out) {
  auto refuse_it = [&](const std::string& why, uint64_t known, bool alive) {
    refuse(greeting, why, known, alive, now, out);
    return true;
  };
  if (greeting.cluster != cluster_)
    return refuse_it("this is cluster '" + cluster_ + "', not '"
                       + greeting.cluster + "'",
                     0, false);
  if (greeting.self.name == self_.name) {
    // The other node evaluates the same condition with the opposite result.
    if (std::pair{up_count() > 0, start_}
        > std::pair{!greeting.members.empty(), greeting.start})
      return refuse_it("this node has that name", self_.incarnation, true);
    visit({greeting.self.address, greeting.self.name}, now, out);
    return true;
  }
  auto i = peers_.find(greeting.self.name);
  if (i == peers_.end())
    return !make_room(out)
           && refuse_it("no more than " + std::to_string(settings_.max_peers)
                          + " nodes are known at once",
                        0, false);
  auto& p = i->second;
  auto follows = greeting.self.incarnation > p.info.incarnation
                 || (greeting.self.incarnation == p.info.incarnation
                     && greeting.start == p.start);
  return !follows
         && refuse_it("the same or a later start of this node is known",
                      p.info.incarnation, p.is_up());
}

peer_actions peer_table::on_hello(const hello& greeting, timestamp now) {
  peer_actions out;
  auto is_itself = greeting.start == start_ && greeting.self.name == self_.name;
  if (is_itself || greeting.link == 0 || turn_away(greeting, now, out))
    return out;
  auto [i, fresh] = peers_.try_emplace(greeting.self.name);
  auto& p = i->second;
  if (fresh) {
    p.info = greeting.self;
  } else if (greeting.self.incarnation > p.info.incarnation) {
    p.connected = false; // to the earlier start
    give_up(p, {"started again"}, now, out);
    if (p.info.address != greeting.self.address)
      forget(p.info.address, out);
    p = peer{};
  } else if (greeting.link <= std::max(p.their_link, p.given_up_link)) {
    if (greeting.link == p.their_link)
      meet(greeting.members, now, out); // repeated because of new members
    return out;
  } else if (p.is_linked()) {
    end(p, {.reason = "started the link anew", .returns = true}, out);
  }
  p.info = greeting.self;
  p.start = greeting.start;
  p.their_link = greeting.link;
  p.state = link_state::half;
  p.last_heard = now;
  auto* connection = want({greeting.self.address, greeting.self.name}, out);
  p.connected = connection != nullptr && connection->stands;
  // Otherwise this node's last hello, sent or received, is still valid.
  if (p.connected && p.our_link != 0 && p.our_link <= greeting.given_up)
    greet(p, now, out);
  if (p.connected && p.our_link == 0) {
    p.our_link = connection->greeted;
    p.last_greeted = now;
  }
  meet(greeting.members, now, out);
  if (p.connected)
    out.push_back(send_heartbeat{greeting.self.address, {p.their_link}});
  settle(p, out);
  return out;
}

peer_table::peer* peer_table::known(const origin& start) {
  auto i = peers_.find(start.node);
  auto is_it = i != peers_.end()
               && i->second.info.incarnation == start.incarnation
               && i->second.start == start.start;
  return is_it ? &i->second : nullptr;
}

peer_actions peer_table::on_heartbeat(const origin& from,
                                      const heartbeat& message, timestamp now) {
  peer_actions out;
  auto* found = known(from);
  if (found == nullptr)
    return out;
  auto& p = *found;
  p.last_heard = now;
  if (message.link == p.our_link && message.link != 0) {
    p.our_link_accepted = true;
    settle(p, out);
  } else if (p.our_link_accepted) {
    give_up(p, {"gave up the link"}, now, out);
  } else if (p.connected && now - p.last_greeted > settings_.timeout) {
    give_up(p, {"does not accept the link"}, now, out); // the hello was lost
  }
  return out;
}

peer_actions peer_table::on_goodbye(const origin& from, timestamp now) {
  peer_actions out;
  auto* p = known(from);
  if (p == nullptr)
    return out;
  auto was_linked = p->is_linked();
  give_up(*p, {.reason = "left", .left = true}, now, out);
  if (!was_linked) // the connection ended before the goodbye arrived
    out.push_back(report_down{p->info, "left", true});
  return out;
}

peer_actions
peer_table::on_hello_rejected(const hello_rejected& message) const {
  if (message.node != self_.name || message.incarnation != self_.incarnation
      || message.start != start_)
    return {}; // for an earlier start of this node
  return {report_rejected{message}};
}

peer_actions peer_table::on_tick(timestamp now) {
  peer_actions out;
  tend_connections(now, out);
  // After a pause of this process, heartbeats may wait unread: no peer is late.
  auto stood_still = now - last_tick_ > settings_.timeout;
  last_tick_ = now;
  for (auto& [name, p] : peers_) {
    if (stood_still)
      p.last_heard = now;
    if (p.is_linked() && now - p.last_heard > settings_.timeout)
      give_up(p, {"no heartbeat for " + format_duration(settings_.timeout)},
              now, out);
    else if (p.connected && !p.is_linked()
             && now - p.last_greeted > settings_.visit_time)
      greet(p, now, out); // the hello was lost or ignored
    if (p.connected)
      out.push_back(send_heartbeat{p.info.address, {p.their_link}});
  }
  return out;
}

void peer_table::settle(peer& p, peer_actions& out) {
  if (p.state != link_state::half || !p.connected || !p.our_link_accepted)
    return;
  p.state = link_state::up;
  out.push_back(report_up{p.info});
  for (auto& [name, other] : peers_)
    if (other.is_up() && &other != &p)
      out.push_back(send_hello{
        other.info.address, make_hello(other.our_link, other.given_up_link)});
}

void peer_table::end(peer& p, const parting& how, peer_actions& out) {
  auto was = std::exchange(p.state, link_state::unlinked);
  p.given_up_link = std::max(p.given_up_link, std::exchange(p.their_link, 0));
  p.our_link_accepted = false;
  // Messages accepted before the link was up end with it, so report half, too.
  if (was != link_state::unlinked)
    out.push_back(report_down{p.info, how.reason, how.left, how.returns});
}

void peer_table::give_up(peer& p, const parting& how, timestamp now,
                         peer_actions& out) {
  end(p, how, out);
  p.our_link = 0;
  if (p.connected)
    greet(p, now, out);
}

bool peer_table::accepts(const origin& start) {
  auto* p = known(start);
  return p != nullptr && p->is_linked();
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
    if (p.is_up())
      out.push_back(p.info);
  return out;
}

size_t peer_table::up_count() const {
  return linked().size();
}

} // namespace millrace
