// SPDX-License-Identifier: Apache-2.0
#include "transport/peers.hpp"

#include "runtime/units.hpp"

namespace millrace {

peer_table::peer_table(std::string cluster, member self, link_settings settings,
                       std::vector<std::string> seeds)
  : cluster_(std::move(cluster)),
    self_(std::move(self)),
    settings_(settings),
    seeds_(std::move(seeds)) {
}

peer_actions peer_table::start() {
  peer_actions out;
  for (auto& address : seeds_)
    want(address, out);
  return out;
}

hello peer_table::make_hello(uint64_t link, uint64_t given_up) const {
  return {cluster_, self_, link, given_up, linked()};
}

peer_table::peer* peer_table::at_address(const std::string& address) {
  for (auto& [name, p] : peers_)
    if (p.info.address == address)
      return &p;
  return nullptr;
}

void peer_table::want(const std::string& address, peer_actions& out) {
  if (address != self_.address && connections_.emplace(address, false).second)
    out.push_back(connect_to{address});
}

void peer_table::meet(const std::vector<member>& others, peer_actions& out) {
  for (auto& m : others)
    if (m.name != self_.name && !peers_.contains(m.name))
      want(m.address, out);
}

void peer_table::greet(peer& p, timestamp now, peer_actions& out) {
  p.our_link = ++last_link_;
  p.our_link_accepted = false;
  p.last_greeted = now;
  out.push_back(
    send_hello{p.info.address, make_hello(p.our_link, p.given_up_link)});
}

peer_actions peer_table::on_connected(const std::string& address,
                                      timestamp now) {
  peer_actions out;
  connections_[address] = true;
  if (auto* p = at_address(address)) {
    p->connected = true;
    greet(*p, now, out);
  } else { // a seed: who it is will be known from its own hello
    unnamed_links_[address] = ++last_link_;
    out.push_back(send_hello{address, make_hello(last_link_, 0)});
  }
  return out;
}

peer_actions peer_table::on_disconnected(const std::string& address,
                                         timestamp now) {
  peer_actions out;
  connections_[address] = false;
  if (auto* p = at_address(address)) {
    p->connected = false;
    give_up(*p, "connection lost", now, out);
  }
  return out;
}

peer_actions peer_table::on_hello(const hello& x, timestamp now) {
  peer_actions out;
  if (x.cluster != cluster_ || x.self.name == self_.name || x.link == 0)
    return out;
  auto [i, fresh] = peers_.try_emplace(x.self.name);
  auto& p = i->second;
  if (fresh) {
    p.info = x.self;
  } else if (x.self.incarnation < p.info.incarnation) {
    return out; // an earlier start, which has been replaced for good
  } else if (x.self.incarnation > p.info.incarnation) {
    p.connected = false; // to the earlier start
    give_up(p, "started again", now, out);
    if (p.info.address != x.self.address
        && connections_.erase(p.info.address) != 0)
      out.push_back(drop_connection{p.info.address});
    p = peer{};
  } else if (x.link <= std::max(p.their_link, p.given_up_link)) {
    if (x.link == p.their_link)
      meet(x.members, out); // said again because there are new ones
    return out;
  } else if (p.their_link != 0) {
    end(p, "started the link anew", out);
  }
  p.info = x.self;
  p.their_link = x.link;
  p.last_heard = now;
  want(x.self.address, out);
  p.connected = connections_[x.self.address];
  // Else the hello that is on its way, or was heard, still counts.
  if (p.connected && p.our_link != 0 && p.our_link <= x.given_up)
    greet(p, now, out);
  if (p.connected && p.our_link == 0) {
    p.our_link = unnamed_links_[x.self.address];
    p.last_greeted = now;
  }
  meet(x.members, out);
  if (p.connected)
    out.push_back(send_beat{x.self.address, {p.their_link}});
  settle(p, out);
  return out;
}

peer_actions peer_table::on_beat(const std::string& node, uint64_t incarnation,
                                 const beat& x, timestamp now) {
  peer_actions out;
  auto i = peers_.find(node);
  if (i == peers_.end() || i->second.info.incarnation != incarnation)
    return out;
  auto& p = i->second;
  p.last_heard = now;
  if (x.link == p.our_link && x.link != 0) {
    p.our_link_accepted = true;
    settle(p, out);
  } else if (p.our_link_accepted) {
    give_up(p, "gave up the link", now, out);
  } else if (p.connected && now - p.last_greeted > settings_.timeout) {
    give_up(p, "does not accept the link", now, out); // our hello was lost
  }
  return out;
}

peer_actions peer_table::on_goodbye(const std::string& node,
                                    uint64_t incarnation, timestamp now) {
  peer_actions out;
  auto i = peers_.find(node);
  if (i != peers_.end() && i->second.info.incarnation == incarnation)
    give_up(i->second, "left", now, out);
  return out;
}

peer_actions peer_table::on_tick(timestamp now) {
  peer_actions out;
  for (auto& [name, p] : peers_) {
    if (p.their_link != 0 && now - p.last_heard > settings_.timeout)
      give_up(p, "no heartbeat for " + format_duration(settings_.timeout), now,
              out);
    if (p.connected)
      out.push_back(send_beat{p.info.address, {p.their_link}});
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

void peer_table::end(peer& p, const std::string& reason, peer_actions& out) {
  // What it said before its link was up both ways has to go as well.
  auto heard = p.their_link != 0;
  p.given_up_link = std::max(p.given_up_link, p.their_link);
  p.their_link = 0;
  p.our_link_accepted = false;
  if (p.up || heard)
    out.push_back(report_down{p.info, reason});
  p.up = false;
}

void peer_table::give_up(peer& p, const std::string& reason, timestamp now,
                         peer_actions& out) {
  end(p, reason, out);
  p.our_link = 0;
  if (p.connected)
    greet(p, now, out);
}

bool peer_table::accepts(const std::string& node, uint64_t incarnation) const {
  auto i = peers_.find(node);
  return i != peers_.end() && i->second.info.incarnation == incarnation
         && i->second.their_link != 0;
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
