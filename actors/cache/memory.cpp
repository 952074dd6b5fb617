// SPDX-License-Identifier: Apache-2.0

/// \file
/// The memory side of a CACHE: the limit, the bundles, and their users.

#include <algorithm>
#include <utility>

#include "actors/cache/cache_state.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Part of the host's memory that is reserved for other processes: QUART limits
/// model memory to 85 % (section 6.1).
constexpr double left_to_others = 0.15;
constexpr auto look_at_memory = 1s;

} // namespace

/// Returns the memory limit that is reported to the placement; 0: unknown. A
/// limit that follows the host's free memory changes all the time. The report
/// is therefore a little lower, and stays the same over small changes.
uint64_t cache_state::memory_to_tell() const {
  constexpr uint64_t part = 32;
  auto now = memory_->capacity();
  if (options_.memory.value > 0 || now == 0)
    return now;
  auto told = told_ ? told_->memory : 0;
  auto least = now - now / part;
  return told <= now && told >= least - least / part ? told : least;
}

/// Returns how many more bytes of the host's memory models may take; negative
/// when models must free bytes; nothing when the limit is configured or the
/// host's memory is unknown.
std::optional<int64_t> cache_state::memory_left() const {
  if (options_.memory.value > 0 || !options_.probe)
    return std::nullopt;
  auto host = options_.probe();
  if (host.memory == 0)
    return std::nullopt;
  auto left =
    static_cast<int64_t>(host.available)
    - static_cast<int64_t>(left_to_others * static_cast<double>(host.memory));
  // Reserved bytes that the bundles do not occupy yet.
  auto promised = static_cast<int64_t>(memory_->held());
  for (auto& [content, x] : arrivals_)
    if (x.bytes)
      promised -= static_cast<int64_t>(bytes_there(*x.bytes));
  return left - std::max<int64_t>(promised, 0);
}

/// Returns the capacity in bytes, at least 1, because 0 means unlimited.
uint64_t cache_state::limit_of_memory(int64_t left) const {
  auto most = static_cast<int64_t>(memory_->held()) + left;
  return static_cast<uint64_t>(std::max<int64_t>(most, 1));
}

void cache_state::limit_memory() {
  if (auto left = memory_left())
    memory_->limit_to(limit_of_memory(*left));
}

/// Other processes of the host may need more memory than before.
void cache_state::on_tick(tick) {
  if (auto left = memory_left(); left && *left < 0)
    evict(memory_->shrink_to(limit_of_memory(*left)));
  limit_memory();
  self_->delayed_send(self_, look_at_memory, tick::value);
}

void cache_state::on_pinned_contents(const pinned_contents& message) {
  pinned_contents_ = {message.contents.begin(), message.contents.end()};
  keep_pinned_contents();
}

/// Updates the last copies of both tiers. A content in the bundle directory is
/// no last copy in either tier, and a content in the disk cache is none in
/// memory.
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

/// Reserves room to read a bundle from the disk into memory. A fetch by the
/// relay evicts nothing. Returns false when the bundle is used from the file.
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

/// Takes over what the previous cache of this host had in memory or in
/// transfer. Each user reports its use itself. A transfer in progress goes on.
void cache_state::adopt(const contents_here& message) {
  for (auto& y : message.memory)
    adopt(y);
  on_pinned_contents(message.last);
  tell_owner();
}

void cache_state::adopt(const content_here& message) {
  if (arrivals_.contains(message.content)
      || (message.bytes && !is_good(*message.bytes)))
    return;
  auto layers =
    message.bytes && is_whole(*message.bytes) ? layer_range{} : message.layers;
  auto bytes = bytes_of(message.info, layers);
  memory_->adopt(message.content,
                 {bytes, message.from_disk ? seconds_to_read(bytes)
                                           : seconds_to_get(bytes)});
  arrivals_[message.content] = {message.bytes, message.info, now(),
                                message.from_disk ? place::read : place::hosts,
                                layers};
  if (message.bytes)
    watch_until_whole(message.content, *message.bytes);
  else // it may have no users
    self_->delayed_send(self_, left_alone, content_unused{message.content});
}

/// The relay may lack a content that was read from the disk of this host.
void cache_state::on_used(const content_here& message) {
  if (auto& file = message.bytes->weights_file; file && file->is_in_memory())
    adopt(message);
  use(memory_->has(message.content) ? place::read : place::kept,
      message.content, self_->current_sender());
}

/// Answers a restarted relay with the bundles that its predecessor fetched.
contents_here cache_state::on_get_contents() const {
  contents_here out{list(), {}, {}};
  for (auto& [content, y] : arrivals_)
    if (y.from == place::hosts && is_there(y) && is_good(*y.bytes))
      out.memory.push_back({content, y.info, y.bytes, y.layers, false});
  return out;
}

/// Frees the reserved room of a bundle that will not come into memory.
void cache_state::give_back(opening& begun) {
  if (!begun.room)
    return;
  auto content = begun.room->content();
  begun.room.reset();
  if (!arrivals_.contains(content) && memory_->users_of(content) == 0)
    memory_->drop(content);
}

/// Reserves room for a bundle that the relay is to fetch.
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

/// Corrects the reserved room to the size in the manifest, which may differ
/// from the size in the fetch.
result<void> cache_state::make_room_as_told(const fetched& answer) {
  auto i = arrivals_.find(answer.info.content);
  return i == arrivals_.end()
           ? result<void>{}
           : grow(answer.info.content, bytes_of(answer.info, i->second.layers));
}

/// A transfer of some layers reserves room for those layers only. A fetch of
/// other layers extends the transfer and its room to all layers; see RELAY.
result<void> cache_state::make_room_for_more(const entry& from,
                                             const fetch& request) {
  auto i = arrivals_.find(from.info.content);
  if (from.from != place::hosts || i == arrivals_.end()
      || i->second.layers == layer_range{}
      || i->second.layers == request.layers)
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

/// Returns the model of a content for log events; empty: unknown.
std::string cache_state::model_of(const std::string& content) const {
  for (auto& [k, e] : open_)
    if (e.info.content == content)
      return e.info.model;
  for (auto& x : on_disk_)
    if (x.content == content)
      return x.model;
  return tier_ && tier_->has(content) ? tier_->all().at(content).model : "";
}

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

/// Registers `by` as a user of a content until that actor ends. A bundle in the
/// bundle directory has no lease.
void cache_state::use(place from, const std::string& content,
                      const caf::strong_actor_ptr& by) {
  auto is_theirs = from == place::disk || (from == place::kept && !tier_);
  if (is_theirs || !by || is_relay(by)) // drop_content ends the relay's use
    return;
  auto lease = (from == place::kept ? tier_->book() : *memory_).use(content);
  if (!lease)
    return;
  users_.emplace(by->address(), std::move(*lease));
  self_->monitor(caf::actor_cast<caf::actor>(by));
}

/// Cancels an unused transfer only after a delay, because a replica that
/// replaces a failed one may soon fetch the same content.
void cache_state::on_content_unused(const content_unused& message) {
  for (auto& k : at_relay())
    if (std::get<2>(k) == message.content && opening_.at(k).waiting.empty())
      settle(k, error{ec::cancelled, "no fetch waits for the bundle", {}},
             place::hosts);
  auto i = arrivals_.find(message.content);
  if (i == arrivals_.end() || i->second.from != place::hosts
      || memory_->users_of(message.content) > 0 || is_there(i->second))
    return;
  if (now() - i->second.used < left_alone)
    self_->delayed_send(self_, left_alone, message);
  else
    forget(message.content);
}

void cache_state::on_down(const caf::down_msg& message) {
  if (relays_.erase(message.source) > 0)
    give_up_arriving();
  auto [first, last] = users_.equal_range(message.source);
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
    return y.by && y.by->address() == message.source;
  };
  for (auto& [k, sought] : opening_)
    if (std::erase_if(sought.waiting, is_gone) > 0)
      self_->delayed_send(self_, left_alone, content_unused{std::get<2>(k)});
}

/// Lists the bundles that are requested from the relay.
std::vector<cache_state::key> cache_state::at_relay() const {
  std::vector<key> out;
  for (auto& [k, sought] : opening_)
    if (sought.at_relay)
      out.push_back(k);
  return out;
}

/// Fails all transfers of the lost relay, and with them all pending fetches.
void cache_state::give_up_arriving() {
  const error lost{
    ec::unavailable, "lost the relay that fetched the bundle", {}};
  for (auto& k : at_relay())
    settle(k, lost, place::hosts);
  for (auto& [id, x] : arrivals_)
    if (x.bytes && x.bytes->weights_file && x.from == place::hosts
        && !is_there(x))
      x.bytes->weights_file->give_up(lost);
}

} // namespace millrace
