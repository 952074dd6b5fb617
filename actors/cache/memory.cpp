// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a CACHE has in memory, and who uses it.

#include <algorithm>
#include <utility>

#include "actors/cache/cache_state.hpp"
#include "actors/policies/scale/configured_groups.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// What the host's memory has for others. (QUART's 85 %, section 6.1)
constexpr double left_to_others = 0.15;
constexpr auto look_at_memory = 1s;

} // namespace

/// What there may be in memory, as far as the placement is to know; 0: nobody
/// knows. What others need of the host's changes all the time: a little less is
/// told, and small changes are not.
uint64_t cache_state::memory_to_tell() const {
  constexpr uint64_t part = 32;
  auto now = memory_->capacity();
  if (options_.memory.value > 0 || now == 0)
    return now;
  auto told = told_ ? told_->memory : 0;
  auto least = now - now / part;
  return told <= now && told >= least - least / part ? told : least;
}

/// How much more of the host's there may be for models, below 0: how much less;
/// none: nobody knows.
std::optional<int64_t> cache_state::memory_left() const {
  if (options_.memory.value > 0 || !options_.probe)
    return std::nullopt;
  auto host = options_.probe();
  if (host.memory == 0)
    return std::nullopt;
  auto left =
    static_cast<int64_t>(host.available)
    - static_cast<int64_t>(left_to_others * static_cast<double>(host.memory));
  auto promised = static_cast<int64_t>(memory_->held()); // and not taken yet
  for (auto& [content, x] : arrivals_)
    if (x.bytes)
      promised -= static_cast<int64_t>(bytes_there(*x.bytes));
  return left - std::max<int64_t>(promised, 0);
}

/// 0 has no limit.
uint64_t cache_state::limit_of_memory(int64_t left) const {
  auto most = static_cast<int64_t>(memory_->held()) + left;
  return static_cast<uint64_t>(std::max<int64_t>(most, 1));
}

void cache_state::limit_memory() {
  if (auto left = memory_left())
    memory_->limit_to(limit_of_memory(*left));
}

/// Others may have come to need some of it.
void cache_state::on_tick(tick) {
  if (auto left = memory_left(); left && *left < 0)
    evict(memory_->shrink_to(limit_of_memory(*left)));
  limit_memory();
  self_->delayed_send(self_, look_at_memory, tick::value);
}

void cache_state::on_pinned_contents(const pinned_contents& x) {
  pinned_contents_ = {x.contents.begin(), x.contents.end()};
  keep_pinned_contents();
}

/// What is on the disk too may go from memory, and from the disk where people
/// put it there.
void cache_state::keep_pinned_contents() {
  auto last = pinned_contents_;
  for (auto& info : on_disk_)
    if (!broken_.contains(info.content))
      last.erase(info.content);
  if (tier_) {
    tier_->book().keep_last(last);
    std::erase_if(last, [&](auto& content) { return tier_->has(content); });
  }
  memory_->keep_last(last);
}

/// Takes room for what lies on the disk here. What only others need takes no
/// room that something else has.
bool cache_state::make_room_to_read(const key& k, const model_info* here) {
  auto& [model, version, wanted] = k;
  if (here == nullptr || here->content.empty() || here->bytes == 0
      || (!wanted.empty() && wanted != here->content)
      || broken_.contains(here->content))
    return false;
  limit_memory();
  auto& sought = opening_.at(k);
  if (is_relay(sought.waiting.front().by) && !memory_->fits(here->bytes))
    return false;
  auto room =
    memory_->take(here->content, {here->bytes, seconds_to_read(here->bytes)});
  if (!room)
    return false;
  sought.room = std::move(room->in_use);
  evict(room->gone);
  return true;
}

/// What the cache before it had in memory, or on its way there. Who uses that
/// says so himself: what has begun to come goes on, whatever it is for.
void cache_state::adopt(const contents_here& x) {
  for (auto& y : x.memory)
    adopt(y);
  on_pinned_contents(x.last);
  tell_owner();
}

void cache_state::adopt(const content_here& x) {
  if (arrivals_.contains(x.content) || (x.bytes && !is_good(*x.bytes)))
    return;
  auto layers = x.bytes && is_whole(*x.bytes) ? layer_range{} : x.layers;
  auto bytes = bytes_of(x.info, layers);
  memory_->adopt(x.content, {bytes, x.from_disk ? seconds_to_read(bytes)
                                                : seconds_to_get(bytes)});
  arrivals_[x.content] = {x.bytes, x.info, now(),
                          x.from_disk ? place::read : place::hosts, layers};
  if (x.bytes)
    watch_until_whole(x.content, *x.bytes);
  else // nor is it known that anybody waits
    self_->delayed_send(self_, left_alone, content_unused{x.content});
}

/// The relay may not know of it, where it was read from this host's disk.
void cache_state::on_used(const content_here& x) {
  if (auto& file = x.bytes->weights_file; file && file->is_in_memory())
    adopt(x);
  use(memory_->has(x.content) ? place::read : place::kept, x.content,
      self_->current_sender());
}

/// For a relay that begins: what the one before it had got.
contents_here cache_state::on_get_contents() const {
  contents_here out{list(), {}, {}};
  for (auto& [content, y] : arrivals_)
    if (y.from == place::hosts && is_there(y) && is_good(*y.bytes))
      out.memory.push_back({content, y.info, y.bytes, y.layers, false});
  return out;
}

/// It does not come.
void cache_state::give_back(opening& x) {
  if (!x.room)
    return;
  auto content = x.room->content();
  x.room.reset();
  if (!arrivals_.contains(content) && memory_->users_of(content) == 0)
    memory_->drop(content);
}

/// Takes room for what is about to come.
result<void> cache_state::make_room(opening& sought) {
  auto& x = sought.waiting.front().what;
  limit_memory();
  auto room = memory_->take(x.content, {x.bytes, seconds_to_get(x.bytes)});
  if (!room)
    return std::move(room.failure()).within("memory for models");
  sought.room = std::move(room->in_use);
  evict(room->gone);
  auto [i, fresh] = arrivals_.try_emplace(x.content);
  i->second.used = now();
  if (fresh) {
    i->second.layers = x.layers;
    i->second.info.model = x.model;
    i->second.info.version = x.version;
    i->second.info.bytes = x.bytes;
  }
  return {};
}

/// What has begun to come is as large as its manifest says, whatever was said
/// of it before.
result<void> cache_state::make_room_as_told(const fetched& x) {
  auto i = arrivals_.find(x.info.content);
  return i == arrivals_.end()
           ? result<void>{}
           : grow(x.info.content, bytes_of(x.info, i->second.layers));
}

/// What comes for some layers takes no more room than those need. If it is to
/// be more, all of it comes; see RELAY.
result<void> cache_state::make_room_for_more(const entry& from,
                                             const fetch& x) {
  auto i = arrivals_.find(from.info.content);
  if (from.from != place::hosts || i == arrivals_.end()
      || i->second.layers == layer_range{} || i->second.layers == x.layers)
    return {};
  auto done = grow(from.info.content, from.info.bytes);
  if (done)
    i->second.layers = {};
  return done;
}

result<void> cache_state::grow(const std::string& content, uint64_t bytes) {
  limit_memory();
  auto gone = memory_->grow(content, bytes);
  if (!gone)
    return std::move(gone.failure()).within("memory for models");
  evict(*gone);
  return {};
}

/// What it has it of, if it has it; for people.
std::string cache_state::model_of(const std::string& content) const {
  for (auto& [k, e] : open_)
    if (e.info.content == content)
      return e.info.model;
  for (auto& x : on_disk_)
    if (x.content == content)
      return x.model;
  return tier_ && tier_->has(content) ? tier_->all().at(content).model : "";
}

/// They make way for others.
void cache_state::evict(const std::vector<std::string>& contents) {
  figures_->memory.evictions.add(static_cast<double>(contents.size()));
  for (auto& content : contents)
    forget(content);
}

void cache_state::forget(const std::string& content) {
  if (memory_->users_of(content) > 0)
    return;
  if (auto i = arrivals_.find(content); i != arrivals_.end() && i->second.bytes)
    log_event(log_level::info, "cache", "evicted",
              {{"model", model_of(content)}, {"content", content}});
  memory_->drop(content);
  arrivals_.erase(content);
  if (auto relay = options_.find_relay())
    self_->send(relay, drop_content{content});
}

/// Somebody uses it, for as long as they live. What people put on the disk is
/// theirs.
void cache_state::use(place from, const std::string& content,
                      const caf::strong_actor_ptr& by) {
  auto is_theirs = from == place::disk || (from == place::kept && !tier_);
  if (is_theirs || !by || is_relay(by)) // which is told to let go
    return;
  auto lease = (from == place::kept ? tier_->book() : *memory_).use(content);
  if (!lease)
    return;
  users_.emplace(by->address(), std::move(*lease));
  self_->monitor(caf::actor_cast<caf::actor>(by));
}

/// Whoever needs it next may be there soon: another replica, in place of one
/// that has failed.
void cache_state::on_content_unused(const content_unused& x) {
  for (auto& k : at_relay())
    if (std::get<2>(k) == x.content && opening_.at(k).waiting.empty())
      settle(k, error{ec::cancelled, "nobody waits for it any more", {}},
             place::hosts);
  auto i = arrivals_.find(x.content);
  if (i == arrivals_.end() || i->second.from != place::hosts
      || memory_->users_of(x.content) > 0 || is_there(i->second))
    return;
  if (now() - i->second.used < left_alone)
    self_->delayed_send(self_, left_alone, x);
  else
    forget(x.content);
}

void cache_state::on_down(const caf::down_msg& x) {
  if (relays_.erase(x.source) > 0)
    give_up_arriving();
  auto [first, last] = users_.equal_range(x.source);
  std::vector<std::string> left;
  for (auto i = first; i != last; ++i)
    left.push_back(i->second.content());
  users_.erase(first, last);
  for (auto& content : left) {
    auto i = arrivals_.find(content);
    if (i == arrivals_.end())
      continue;
    i->second.used = now();
    auto serves = !i->second.bytes || is_good(*i->second.bytes);
    if (!serves
        || (options_.evict == eviction::unused && !memory_->is_last(content)))
      forget(content);
    else
      self_->delayed_send(self_, left_alone, content_unused{content});
  }
  auto is_gone = [&](const asked& y) {
    return y.by && y.by->address() == x.source;
  };
  for (auto& [k, sought] : opening_)
    if (std::erase_if(sought.waiting, is_gone) > 0)
      self_->delayed_send(self_, left_alone, content_unused{std::get<2>(k)});
}

/// What the relay is to get.
std::vector<cache_state::key> cache_state::at_relay() const {
  std::vector<key> out;
  for (auto& [k, sought] : opening_)
    if (sought.at_relay)
      out.push_back(k);
  return out;
}

/// With the relay that got them: whoever waits for them hears it.
void cache_state::give_up_arriving() {
  const error lost{ec::unavailable, "the relay that got it was lost", {}};
  for (auto& k : at_relay())
    settle(k, lost, place::hosts);
  for (auto& [id, x] : arrivals_)
    if (x.bytes && x.bytes->weights_file && x.from == place::hosts
        && !is_there(x))
      x.bytes->weights_file->give_up(lost);
}

} // namespace millrace
