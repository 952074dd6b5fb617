// SPDX-License-Identifier: Apache-2.0
#include "actors/chain/chain_controller_state.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "runtime/log.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Those that want something at the same time are to stand in one chain.
constexpr auto plan_delay = 5ms;

/// A relay that has lost what it was told to get something from is told so
/// again after that long: it may be back, or give wrong bytes each time.
constexpr nanoseconds say_again = 1s;

/// And less and less often, while that is of no use.
constexpr nanoseconds seldom_again = 8s;

/// A host keeps a last copy so long yet once another is told to.
constexpr nanoseconds keeps_on = 2s;

/// Whether all chunks of some ranges are in others; none at all means all.
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

/// Of each chunk but the last, rounded up.
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

void chain_controller_state::on_content_report(content_report& x) {
  auto& known = hosts_[x.node];
  if (known.incarnation > x.incarnation)
    return;
  auto anew = known.relay != x.relay; // it has forgotten what it was told
  for (auto& y : known.contents)
    changed_.insert(y.content);
  for (auto& y : x.contents)
    changed_.insert(y.content);
  if (anew) {
    std::erase_if(said_, [&](auto& y) { return y.first.first == x.node; });
    std::erase_if(held_, [&](auto& y) { return y.first == x.node; });
    last_said_.erase(x.node);
  }
  copies_changed_ = true;
  measure(known, x);
  known = std::move(x);
  forget_what_came(known.node, said_);
  forget_what_came(known.node, rates_);
  plan_soon();
}

/// A node gets it no more.
template <class T>
void chain_controller_state::forget_what_came(const std::string& node,
                                              by_content<T>& from) const {
  for (auto i = from.lower_bound({node, {}});
       i != from.end() && i->first.first == node;) {
    auto* has = find(node, i->first.second);
    i = has != nullptr && has->wants ? std::next(i) : from.erase(i);
  }
}

void chain_controller_state::on_peer_down(const peer_down& x) {
  auto i = hosts_.find(x.peer.name);
  if (i == hosts_.end() || i->second.incarnation != x.peer.incarnation)
    return;
  for (auto& y : i->second.contents)
    changed_.insert(y.content);
  hosts_.erase(i);
  auto its = [&](auto& y) { return y.first.first == x.peer.name; };
  std::erase_if(said_, its);
  std::erase_if(rates_, its);
  std::erase_if(held_, [&](auto& y) { return y.first == x.peer.name; });
  last_said_.erase(x.peer.name);
  speeds_.erase(x.peer.name);
  copies_changed_ = true;
  plan_soon();
}

void chain_controller_state::plan_soon() {
  plan_at(now() + plan_delay);
}

void chain_controller_state::plan_at(timestamp when) {
  alarm_.set(self_, when);
}

/// The patience in the options is for chunks of a real bundle.
nanoseconds
chain_controller_state::patience_for(const std::string& content) const {
  uint64_t chunk = chunk_bytes;
  for (auto& [node, host] : hosts_)
    if (auto* x = find(node, content))
      chunk = std::max(chunk, bytes_of_chunk(*x));
  return options_.patience
         * static_cast<int64_t>((chunk + chunk_bytes - 1) / chunk_bytes);
}

/// Brings the books of a content up to date: one for each part that somebody
/// wants, for who relays a part has to have it. An object store is a source
/// where no host is.
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

/// Of a host with several nodes that want a part one gets it, and those that
/// have not begun have it from its memory then. Nobody waits for one that is in
/// less of a hurry; else the one that was to get it before still is.
void chain_controller_state::share(const part& what, sharing& x) const {
  std::map<std::string, std::vector<std::string>> wanting; // by host
  for (auto& [node, host] : hosts_)
    if (auto is = stands_in(node, what); is && is->wants && !host.host.empty())
      wanting[host.host].push_back(node);
  x.waits.clear();
  for (auto& [host, nodes] : wanting) {
    auto& first = x.first[host];
    auto claim = [&](const std::string& node) {
      auto* has = find(node, what.first);
      return std::tuple{has->rank, !has->begun, node != first};
    };
    first =
      *std::min_element(nodes.begin(), nodes.end(),
                        [&](auto& a, auto& b) { return claim(a) < claim(b); });
    for (auto& node : nodes)
      if (node != first && !find(node, what.first)->begun)
        x.waits[node] = first;
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
  // What is on a disk it gives once it is told to hold it.
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

/// What is on a host's disk alone it is to have in memory while others get it.
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

/// Who has all of what (FP-41).
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

/// Of those that have it, one that need not have it in memory to keep it;
/// empty: there is none that could be told.
std::string chain_controller_state::best_keeper(const content_copies& x) const {
  std::string out;
  for (auto& node : x.hosts)
    if (!is_store(node) && hosts_.at(node).relay) {
      if (find(node, x.content)->on_disk)
        return node;
      if (out.empty())
        out = node;
    }
  return out;
}

/// Hosts keep what nobody could give again. Where nobody has something for good
/// one host is told so while there are others: they may all let it go at once.
/// When another is told to, the one before it goes on for a while.
void chain_controller_state::send_pinned_contents() {
  std::map<std::string, pinned_contents> told;
  for (auto& [node, host] : hosts_)
    if (!is_store(node) && host.relay)
      told[node]; // it has none, as far as is known
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
                                 const set_sources& x) {
  auto* has = find(node, x.content);
  order first{x, now(), say_again, has->missing};
  auto [i, fresh] = said_.try_emplace({node, x.content}, first);
  auto& before = i->second;
  auto same_as_it_says =
    std::equal(x.from.begin(), x.from.end(), has->from.begin(), has->from.end(),
               [](auto& a, auto& b) { return a.node == b; });
  auto is_nothing = x.from.empty() && x.after.empty();
  auto is_repeated = !fresh && before.what == x;
  if ((fresh ? is_nothing : is_repeated) && same_as_it_says
      && x.after == has->after)
    return;
  if (is_repeated && now() - before.when < before.again)
    return plan_at(before.when + before.again);
  if (is_repeated && has->missing >= before.missing)
    first.again = std::min(2 * before.again, seldom_again);
  before = first;
  log_event(
    log_level::info, "chains", "set_sources",
    {{"node", node},
     {"model", has->model},
     x.after.empty()
       ? log_field{"from", joined(x.from, ", ", [](auto& y) { return y.node; })}
       : log_field{"after", x.after}});
  self_->send(caf::actor_cast<relay_actor>(hosts_.at(node).relay), x);
}

/// The fastest of late: at any time others may hold it up.
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
  // At most so often, for one may have nothing to get for long.
  if (next != far_future)
    plan_at(std::max(next, now() + options_.patience / 4));
}

/// Adds a node of a chain to what is shown of it.
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
    // None where nothing has come for several times as long as that takes.
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

/// Takes down how fast a host gets what it wants.
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
