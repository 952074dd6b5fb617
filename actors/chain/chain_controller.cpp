// SPDX-License-Identifier: Apache-2.0

/// \file
/// The CHAIN CONTROLLER turns content reports into orders for relays.
///
/// A relay or store watch sends content_report; the contents are noted as
/// changed and a plan is due after plan_delay. on_tick then, in this order:
/// - note: updates a chain_book for each part that a host wants;
/// - plan: sends set_sources to the receivers of each book;
/// - pin_sources: sends pin_content to the sources, for copies on disk only;
/// - send_pinned_contents: sends each keeper of a last copy its list.
/// States of an order (node, content): sent -> repeated while the node's report
/// does not confirm it, with growing pauses -> erased when the content is
/// complete or the node left.

#include "actors/chain/chain_controller_state.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "runtime/log.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Delay of a plan, so that hosts that want a content together form one chain.
constexpr auto plan_delay = 5ms;

/// Pause before an order is repeated to a relay that has lost a source: the
/// source may be back, or may send wrong bytes each time.
constexpr nanoseconds say_again = 1s;

/// Longest pause; the pauses double while the relay receives nothing.
constexpr nanoseconds seldom_again = 8s;

/// Time that the former keeper of a last copy keeps it after a new one is set.
constexpr nanoseconds keeps_on = 2s;

/// Whether the ranges `all` contain the ranges `some`; no ranges: all chunks.
bool covers(const std::vector<chunk_range>& all,
            const std::vector<chunk_range>& some) {
  if (all.empty())
    return true;
  return !some.empty() && std::all_of(some.begin(), some.end(), [&](auto& x) {
    return x.size() == 0 || std::any_of(all.begin(), all.end(), [&](auto& y) {
             return y.first <= x.first && x.last <= y.last;
           });
  });
}

/// Size of each chunk but the last, rounded up.
uint64_t bytes_of_chunk(const content_state& x) {
  return x.chunks == 0 ? chunk_bytes : (x.bytes + x.chunks - 1) / x.chunks;
}

bool is_store(const std::string& node) {
  return node.starts_with(store_prefix);
}

} // namespace

void chain_controller_state::start(
  chain_controller_actor::stateful_pointer<chain_controller_state> self,
  chain_options options) {
  self_ = self;
  options_ = std::move(options);
  passed_over_ = options_.counts->chain_passed_over();
  set_common_handlers(self);
}

timestamp chain_controller_state::now() const {
  return self_->clock().now();
}

const content_state*
chain_controller_state::find(const std::string& node,
                             const std::string& content) const {
  auto i = hosts_.find(node);
  if (i == hosts_.end())
    return nullptr;
  auto& all = i->second.contents;
  auto j = std::find_if(all.begin(), all.end(),
                        [&](auto& x) { return x.content == content; });
  return j == all.end() ? nullptr : &*j;
}

void chain_controller_state::on_content_report(content_report& message) {
  auto& known = hosts_[message.node];
  if (known.incarnation > message.incarnation)
    return;
  auto anew = known.relay != message.relay; // a new relay has no orders
  for (auto& y : known.contents)
    changed_.insert(y.content);
  for (auto& y : message.contents)
    changed_.insert(y.content);
  if (anew) {
    std::erase_if(said_,
                  [&](auto& y) { return y.first.first == message.node; });
    std::erase_if(held_, [&](auto& y) { return y.first == message.node; });
    last_said_.erase(message.node);
  }
  copies_changed_ = true;
  measure(known, message);
  known = std::move(message);
  forget_what_came(known.node, said_);
  forget_what_came(known.node, rates_);
  plan_soon();
}

/// Erases entries of contents that the node no longer wants.
template <class T>
void chain_controller_state::forget_what_came(const std::string& node,
                                              by_content<T>& from) const {
  for (auto i = from.lower_bound({node, {}});
       i != from.end() && i->first.first == node;) {
    auto* has = find(node, i->first.second);
    i = has != nullptr && has->wants ? std::next(i) : from.erase(i);
  }
}

void chain_controller_state::on_peer_down(const peer_down& message) {
  auto i = hosts_.find(message.peer.name);
  if (i == hosts_.end() || i->second.incarnation != message.peer.incarnation)
    return;
  for (auto& y : i->second.contents)
    changed_.insert(y.content);
  hosts_.erase(i);
  auto its = [&](auto& y) { return y.first.first == message.peer.name; };
  std::erase_if(said_, its);
  std::erase_if(rates_, its);
  std::erase_if(held_, [&](auto& y) { return y.first == message.peer.name; });
  last_said_.erase(message.peer.name);
  speeds_.erase(message.peer.name);
  copies_changed_ = true;
  plan_soon();
}

void chain_controller_state::plan_soon() {
  plan_at(now() + plan_delay);
}

void chain_controller_state::plan_at(timestamp when) {
  alarm_.set(self_, when);
}

/// The patience of the options, scaled by the chunk size.
nanoseconds
chain_controller_state::patience_for(const std::string& content) const {
  uint64_t chunk = chunk_bytes;
  for (auto& [node, host] : hosts_)
    if (auto* x = find(node, content))
      chunk = std::max(chunk, bytes_of_chunk(*x));
  return options_.patience
         * static_cast<int64_t>((chunk + chunk_bytes - 1) / chunk_bytes);
}

/// Updates the books of a content, one for each wanted part: a relay can only
/// forward chunks that it wants itself. An object store is a source only while
/// no host is complete.
void chain_controller_state::note(const std::string& content) {
  std::set<part> wanted;
  for (auto& [node, host] : hosts_)
    if (auto* x = find(node, content); x != nullptr && x->wants)
      wanted.insert({content, x->only});
  auto is_done = [&](auto& entry) {
    return entry.first.first == content && !wanted.contains(entry.first);
  };
  std::erase_if(books_, is_done);
  std::erase_if(sharing_, is_done);
  for (auto& key : wanted) {
    auto& book =
      books_.try_emplace(key, patience_for(content), options_.topology)
        .first->second;
    for (auto& node : book.hosts())
      if (!stands_in(node, key))
        book.lose(node);
    auto on_a_host = std::any_of(hosts_.begin(), hosts_.end(), [&](auto& x) {
      auto is = stands_in(x.first, key);
      return !is_store(x.first) && is && is->missing == 0 && is->gives;
    });
    auto& shared = sharing_[key];
    share(key, shared);
    for (auto& [node, host] : hosts_)
      if ((is_store(node) && on_a_host
           && options_.topology != bulk_topology::stores)
          || shared.waits.contains(node))
        book.lose(node);
      else if (auto is = stands_in(node, key))
        book.report(node, *is, now());
  }
}

/// On a host with several nodes that want a part, one node fetches it. Nodes
/// that have not begun wait and then use its memory. The fetching node has the
/// most urgent rank; at equal rank the choice stays.
void chain_controller_state::share(const part& what, sharing& state) const {
  std::map<std::string, std::vector<std::string>> wanting; // by host
  for (auto& [node, host] : hosts_)
    if (auto is = stands_in(node, what); is && is->wants && !host.host.empty())
      wanting[host.host].push_back(node);
  state.waits.clear();
  for (auto& [host, nodes] : wanting) {
    auto& first = state.first[host];
    auto claim = [&](const std::string& node) {
      auto* has = find(node, what.first);
      return std::tuple{has->rank, !has->begun, node != first};
    };
    first =
      *std::min_element(nodes.begin(), nodes.end(),
                        [&](auto& a, auto& b) { return claim(a) < claim(b); });
    for (auto& node : nodes)
      if (node != first && !find(node, what.first)->begun)
        state.waits[node] = first;
  }
}

std::optional<chain_book::standing>
chain_controller_state::stands_in(const std::string& node,
                                  const part& what) const {
  auto* x = find(node, what.first);
  if (x == nullptr || !covers(x->only, what.second))
    return std::nullopt;
  chain_book::standing out;
  out.rack = hosts_.at(node).rack;
  out.missing = x->wants ? std::max<uint64_t>(1, x->missing) : 0;
  out.wants = x->wants && x->only == what.second;
  out.remote = is_store(node);
  if (auto known = speeds_.find(node); known != speeds_.end())
    out.speed = known->second.first;
  // A copy on disk counts: pin_sources has it opened.
  out.gives = !x->token.empty() || !x->wants;
  return out;
}

void chain_controller_state::plan(const part& what, chain_book& book) {
  auto& content = what.first;
  auto before = book.passed_over();
  auto orders = book.plan(now());
  passed_over_->add(static_cast<double>(book.passed_over() - before));
  for (auto& [node, sources] : orders) {
    set_sources x{content, {}};
    for (auto& source : sources)
      if (auto* has = find(source, content);
          has != nullptr && !has->token.empty())
        x.from.push_back(
          {source, hosts_.at(source).address, has->token, has->only});
    say(node, x);
  }
  for (auto& [node, first] : sharing_.at(what).waits)
    say(node, {content, {}, first});
}

/// Has sources keep a content of their disk in memory while receivers fetch it.
void chain_controller_state::pin_sources() {
  std::set<std::pair<std::string, std::string>> wanted; // node, content
  for (auto& [key, book] : books_)
    for (auto& chain : book.chains())
      for (auto& node : chain.sources)
        wanted.insert({node, key.first});
  auto tell = [&](const std::string& node, const pin_content& x) {
    if (auto i = hosts_.find(node); i != hosts_.end() && i->second.relay)
      self_->send(caf::actor_cast<relay_actor>(i->second.relay), x);
  };
  for (auto& [node, content] : wanted)
    if (held_.insert({node, content}).second)
      tell(node, {content, true});
  for (auto i = held_.begin(); i != held_.end();) {
    if (wanted.contains(*i)) {
      ++i;
      continue;
    }
    tell(i->first, {i->second, false});
    i = held_.erase(i);
  }
}

/// The hosts and stores with a complete copy, by content (FP-41).
std::vector<content_copies> chain_controller_state::copies() const {
  std::map<std::string, content_copies> all;
  for (auto& [node, host] : hosts_)
    for (auto& x : host.contents) {
      if (x.wants || !x.only.empty())
        continue;
      auto& y = all[x.content];
      y.content = x.content;
      y.model = x.model;
      y.version = x.version;
      y.hosts.push_back(node);
    }
  std::vector<content_copies> out;
  for (auto& [content, x] : all)
    out.push_back(std::move(x));
  return out;
}

/// The host that keeps a last copy, preferably one with the copy on disk;
/// empty: no host with a relay has a copy.
std::string
chain_controller_state::best_keeper(const content_copies& copies) const {
  std::string out;
  for (auto& node : copies.hosts)
    if (!is_store(node) && hosts_.at(node).relay) {
      if (find(node, copies.content)->on_disk)
        return node;
      if (out.empty())
        out = node;
    }
  return out;
}

/// Names a keeper for each content without a lasting copy, or with one copy
/// only: all other hosts may evict theirs at once. After a change of keeper the
/// former one keeps its copy for keeps_on.
void chain_controller_state::send_pinned_contents() {
  std::map<std::string, pinned_contents> told;
  for (auto& [node, host] : hosts_)
    if (!is_store(node) && host.relay)
      told[node]; // an empty list replaces an earlier one
  auto keepers = std::exchange(keepers_, {});
  for (auto& x : copies()) {
    auto lasts = std::any_of(x.hosts.begin(), x.hosts.end(), [&](auto& node) {
      return find(node, x.content)->lasts;
    });
    if (lasts && x.hosts.size() > 1)
      continue;
    auto best = best_keeper(x);
    if (best.empty())
      continue;
    auto& keeper = keepers_[x.content] = keepers[x.content];
    if (keeper.node != best)
      keeper = {best, std::move(keeper.node), now()};
    told[best].contents.push_back(x.content);
    auto until = keeper.since + keeps_on;
    if (std::count(x.hosts.begin(), x.hosts.end(), keeper.before) > 0
        && now() < until) {
      told[keeper.before].contents.push_back(x.content);
      copies_changed_ = true;
      plan_at(until);
    }
  }
  for (auto& [node, last] : told) {
    auto [i, fresh] = last_said_.try_emplace(node, last);
    if (!fresh && i->second.contents == last.contents)
      continue;
    i->second = last;
    self_->send(caf::actor_cast<relay_actor>(hosts_.at(node).relay), last);
  }
}

void chain_controller_state::say(const std::string& node,
                                 const set_sources& message) {
  auto* has = find(node, message.content);
  order first{message, now(), say_again, has->missing};
  auto [i, fresh] = said_.try_emplace({node, message.content}, first);
  auto& before = i->second;
  auto same_as_it_says =
    std::equal(message.from.begin(), message.from.end(), has->from.begin(),
               has->from.end(), [](auto& a, auto& b) { return a.node == b; });
  auto is_nothing = message.from.empty() && message.after.empty();
  auto is_repeated = !fresh && before.what == message;
  if ((fresh ? is_nothing : is_repeated) && same_as_it_says
      && message.after == has->after)
    return;
  if (is_repeated && now() - before.when < before.again)
    return plan_at(before.when + before.again);
  if (is_repeated && has->missing >= before.missing)
    first.again = std::min(2 * before.again, seldom_again);
  before = first;
  log_event(log_level::info, "chains", "set_sources",
            {{"node", node},
             {"model", has->model},
             message.after.empty()
               ? log_field{"from", joined(message.from, ", ",
                                          [](auto& y) { return y.node; })}
               : log_field{"after", message.after}});
  self_->send(caf::actor_cast<relay_actor>(hosts_.at(node).relay), message);
}

/// Records the highest recent rate of each host, with decay: a single rate is
/// low when other hosts delay it.
void chain_controller_state::learn_speeds(const chain_book& book) {
  constexpr auto half_life = 60.;
  for (auto& node : book.hosts())
    if (auto rate = book.rate_of(node); rate && *rate > 0) {
      auto& [speed, since] = speeds_[node];
      speed *= std::exp2(-to_seconds(now() - since) / half_life);
      speed = std::max(*rate, speed);
      since = now();
    }
}

void chain_controller_state::on_tick() {
  if (!alarm_.rings(now()))
    return;
  for (auto& content : std::exchange(changed_, {}))
    note(content);
  auto next = far_future;
  for (auto& [key, book] : books_) {
    plan(key, book);
    learn_speeds(book);
    next = std::min(next, book.next_due());
  }
  pin_sources();
  if (std::exchange(copies_changed_, false))
    send_pinned_contents();
  // A stalled host may stay due for long: bounds the rate of plans.
  if (next != far_future)
    plan_at(std::max(next, now() + options_.patience / 4));
}

/// Adds a node to the status of its chain.
void chain_controller_state::show(const std::string& node,
                                  const std::string& after,
                                  chain_status& in) const {
  auto* x = find(node, in.content);
  if (x == nullptr)
    return;
  in.model = x->model;
  in.version = x->version;
  chain_hop hop{node,       x->from, x->bytes,   x->chunks,
                x->missing, 0,       x->trouble, after};
  if (!x->only.empty()) {
    hop.chunks = 0;
    for (auto& range : x->only)
      hop.chunks += range.size();
    hop.bytes = std::min(x->bytes, hop.chunks * bytes_of_chunk(*x));
  }
  if (auto i = rates_.find({node, in.content});
      i != rates_.end() && x->trouble.empty()) {
    // 0 after a pause of more than three chunks' time.
    auto& r = i->second;
    auto idle = to_seconds(now() - r.since);
    hop.rate = idle * r.per_second > static_cast<double>(3 * bytes_of_chunk(*x))
                   && idle > 1
                 ? 0
                 : r.per_second;
  }
  in.hops.push_back(std::move(hop));
}

chain_list chain_controller_state::on_get_chains() const {
  chain_list out;
  for (auto& [key, book] : books_)
    for (auto& chain : book.chains()) {
      chain_status y;
      y.content = key.first;
      y.sources = chain.sources;
      for (auto& node : chain.members)
        show(node, {}, y);
      for (auto& [node, first] : sharing_.at(key).waits)
        if (std::count(chain.members.begin(), chain.members.end(), first) != 0)
          show(node, first, y);
      out.chains.push_back(std::move(y));
    }
  out.copies = copies();
  return out;
}

/// Measures the rate at which a host receives each wanted content.
void chain_controller_state::measure(const content_report& before,
                                     const content_report& after) {
  for (auto& x : after.contents) {
    auto i = std::find_if(before.contents.begin(), before.contents.end(),
                          [&](auto& y) { return y.content == x.content; });
    if (!x.wants)
      continue;
    auto& r = rates_[{after.node, x.content}];
    if (i == before.contents.end() || !i->wants) {
      r = {0, now()};
      continue;
    }
    if (x.missing >= i->missing || now() <= r.since)
      continue;
    auto bytes =
      static_cast<double>((i->missing - x.missing) * bytes_of_chunk(x));
    r = {bytes / to_seconds(now() - r.since), now()};
  }
}

chain_controller_actor::behavior_type chain_controller(
  chain_controller_actor::stateful_pointer<chain_controller_state> self,
  chain_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](content_report& x) { s.on_content_report(x); },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](get_chains) { return s.on_get_chains(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
