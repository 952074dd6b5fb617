// SPDX-License-Identifier: Apache-2.0
#include "transport/simulated/links.hpp"

#include <algorithm>
#include <atomic>

#include "runtime/log.hpp"

namespace millrace {

namespace {

/// From the start of a process to its links: connections and hellos.
constexpr microseconds meeting = 5ms;

} // namespace

simulated_links::simulated_links(simulated_network& net, link_settings settings,
                                 random_stream random)
  : net_(net),
    settings_(settings),
    random_(std::move(random)) {
}

void simulated_links::plant(planted_bug bug) {
  bug_ = bug;
  static std::atomic<uint64_t> worlds;
  if (bug == planted_bug::chance && worlds++ % 2 == 1)
    random_.next();
}

template <class F>
void simulated_links::for_others(size_t n, F f) {
  auto there = present_; // a copy: f may change it
  for (auto other : there)
    if (other != n)
      f(other);
}

void simulated_links::later(microseconds delay, std::function<void()> f) {
  world().at(world().now() + delay, std::move(f));
}

/// Time until silence is detected: the timeout, less a random part of a
/// heartbeat interval, since the last heartbeat came that much earlier.
microseconds simulated_links::patience() {
  auto part = microseconds{static_cast<int64_t>(
    random_.uniform() * static_cast<double>(settings_.beat.count()))};
  return settings_.timeout - part;
}

bool simulated_links::reachable(size_t from, size_t to) const {
  return !net_.blocked(starts_[from].host, starts_[to].host);
}

microseconds simulated_links::latency(size_t from, size_t to) const {
  return net_.latency(starts_[from].host, starts_[to].host);
}

bool simulated_links::sees(size_t who, size_t whom) const {
  auto& y = starts_[whom];
  return y.joined ? starts_[who].joined && !unlinked_.contains({who, whom})
                  : y.missed_by.contains(who);
}

bool simulated_links::shows(planted_bug bug) {
  constexpr double part = 0.01;
  return bug_ == bug && random_.uniform() < part;
}

simulated_bus* simulated_links::find(const std::string& node) const {
  auto i = by_name_.find(node);
  return i != by_name_.end() && starts_[i->second].joined
           ? starts_[i->second].bus
           : nullptr;
}

// -- coming and going ---------------------------------------------------------

void simulated_links::join(simulated_bus& bus, refusal on_hello_rejected) {
  auto n = starts_.size();
  bus.number_ = n;
  starts_.push_back({bus.self(), bus.host(), &bus, false, false, 0, {}});
  auto extra = random_.uniform() * static_cast<double>(meeting.count());
  later(meeting + microseconds{static_cast<int64_t>(extra)},
        [this, n, refuse = std::move(on_hello_rejected)] {
          if (starts_[n].bus == nullptr)
            return;
          auto& self = starts_[n].info;
          auto& known = known_[self.name];
          if (self.incarnation > known) {
            known = self.incarnation;
            return meet(n);
          }
          log_event(log_level::warning, "bus", "was_refused",
                    {{"node", self.name}, {"known", known}});
          if (refuse)
            refuse({self.name, self.incarnation, 0,
                    "the same or a later start of this node is known", known,
                    find(self.name) != nullptr});
        });
}

void simulated_links::meet(size_t n) {
  auto& self = starts_[n].info;
  if (auto i = by_name_.find(self.name); i != by_name_.end()) {
    auto old = i->second; // its loss may not be detected yet
    auto missing = starts_[old].missed_by;
    for (auto who : missing)
      lose(who, old, "another start of the node joined");
    for_others(old, [&](size_t other) {
      lose(other, old, "another start of the node joined");
      lose(old, other, "replaced by another start");
    });
    remove(old);
  }
  for_others(n, [&](size_t other) {
    unlinked_.insert({n, other});
    unlinked_.insert({other, n});
  });
  by_name_[self.name] = n;
  starts_[n].joined = true;
  present_.push_back(n);
  lost_.erase(self.name);
  left_.erase(self.name);
  for_others(n, [&](size_t other) { link(n, other); });
}

/// Removes a start from the cluster.
void simulated_links::remove(size_t n) {
  auto& x = starts_[n];
  if (!x.joined)
    return;
  x.joined = false;
  std::erase(present_, n);
  std::erase_if(unlinked_,
                [n](auto& p) { return p.first == n || p.second == n; });
}

void simulated_links::leave(simulated_bus& bus) {
  auto n = bus.number_;
  for_others(n, [&](size_t other) {
    if (!sees(other, n) || !reachable(n, other))
      return;
    later(latency(n, other),
          [this, n, other] { lose(other, n, "left", true); });
    starts_[n].missed_by.insert(other);
  });
  lost_.erase(bus.self().name);
  if (starts_[n].joined)
    left_.add(bus.self(), "left", world().now());
  remove(n);
  starts_[n].bus = nullptr;
}

void simulated_links::vanish(simulated_bus& bus) {
  auto n = bus.number_;
  if (n >= starts_.size() || starts_[n].bus != &bus)
    return;
  if (starts_[n].joined) {
    for_others(n, [&](size_t other) {
      if (!sees(other, n))
        return;
      // The host's kernel closes the connections if its packets get through.
      auto through = reachable(n, other);
      later(through ? latency(n, other) : patience(),
            [this, n, other, through] {
              lose(other, n, through ? "connection lost" : "silent");
            });
      starts_[n].missed_by.insert(other);
    });
    lost_.add(bus.self(), "connection lost", world().now());
    remove(n);
  }
  starts_[n].bus = nullptr;
}

// -- links --------------------------------------------------------------------

void simulated_links::link(size_t a, size_t b) {
  auto &x = starts_[a], &y = starts_[b];
  if (!x.joined || !y.joined || x.silent || y.silent || !reachable(a, b)
      || !reachable(b, a))
    return;
  // Both sides must have ended the old link first.
  if (sees(a, b) || sees(b, a))
    return;
  if (bug_ == planted_bug::dead_link && world().elapsed() > 1s)
    return;
  unlinked_.erase({a, b});
  unlinked_.erase({b, a});
  x.bus->outside_.on_link(x.info, y.info, true);
  x.bus->outside_.on_link(y.info, x.info, true);
  x.bus->tell_subscribers(y.info, caf::make_message(peer_up{y.info}));
  y.bus->tell_subscribers(x.info, caf::make_message(peer_up{x.info}));
}

/// Ends a link on one side.
void simulated_links::lose(size_t who, size_t whom, const std::string& reason,
                           bool left) {
  auto* bus = starts_[who].bus;
  auto& other = starts_[whom];
  auto missed = other.missed_by.erase(who) != 0;
  if (bus == nullptr || (!missed && !sees(who, whom)))
    return;
  if (!missed)
    unlinked_.insert({who, whom});
  bus->lose(whom, other.info, reason, left);
}

void simulated_links::give_up(size_t who, size_t whom,
                              const std::string& reason) {
  if (!sees(who, whom))
    return;
  lose(who, whom, reason);
  if (starts_[whom].joined)
    try_again(who, whom);
}

/// Sends a hello with a new link number: the other side ends the old link and
/// answers.
void simulated_links::try_again(size_t a, size_t b) {
  if (!reachable(a, b))
    return; // mend tries again
  later(latency(a, b), [this, a, b] {
    if (!starts_[a].joined || !starts_[b].joined || starts_[b].silent)
      return; // wake tries again
    if (sees(a, b))
      return; // linked meanwhile: this hello is outdated
    lose(b, a, "given up by the other side");
    if (reachable(b, a))
      later(latency(b, a), [this, a, b] { link(a, b); });
  });
}

// -- faults -------------------------------------------------------------------

void simulated_links::silence(simulated_bus& bus) {
  auto n = bus.number_;
  auto& self = starts_[n];
  if (self.silent)
    return;
  self.silent = true;
  auto since = ++self.silences;
  for_others(n, [&](size_t other) {
    later(patience(), [this, n, other, since] {
      if (starts_[n].silent && starts_[n].silences == since
          && starts_[n].joined)
        give_up(other, n, "silent");
    });
  });
}

void simulated_links::wake(simulated_bus& bus) {
  auto n = bus.number_;
  starts_[n].silent = false;
  if (!starts_[n].joined)
    return;
  for_others(n, [&](size_t other) {
    if (!unlinked_.contains({other, n}))
      return;
    // The process reads the hellos of the others first.
    lose(n, other, "given up by the other side");
    try_again(n, other);
  });
}

void simulated_links::cut(host_number from, host_number to) {
  if (net_.blocked(from, to))
    return;
  net_.block(from, to);
  auto which = ++last_cut_;
  cuts_[{from, to}] = which;
  for (auto a : present_)
    for (auto b : present_)
      if (starts_[a].host == from && starts_[b].host == to && a != b)
        later(patience(), [this, a, b, from, to, which] {
          auto i = cuts_.find({from, to});
          if (i != cuts_.end() && i->second == which && starts_[b].joined)
            give_up(b, a, "silent");
        });
}

void simulated_links::mend(host_number from, host_number to) {
  if (cuts_.erase({from, to}) == 0)
    return;
  net_.unblock(from, to);
  for (auto a : present_)
    for (auto b : present_)
      if (starts_[a].host == from && starts_[b].host == to
          && (unlinked_.contains({a, b}) || unlinked_.contains({b, a})))
        try_again(a, b);
}

} // namespace millrace
