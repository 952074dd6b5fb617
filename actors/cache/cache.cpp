// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache_state.hpp"

#include <algorithm>

#include "models/travelling_bundle.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Timeout of a request to the relay: the transfer of a large model over a slow
/// link can take a day. The relay reports a failure much earlier.
constexpr caf::timespan arrival_patience = 24h;

} // namespace

void cache_state::start(cache_actor::stateful_pointer<cache_state> me,
                        cache_options options) {
  self_ = me;
  options_ = std::move(options);
  figures_.emplace(*options_.counts);
  auto clock = [this] { return now(); };
  memory_.emplace(options_.memory.value, options_.evict, clock);
  set_common_handlers(me);
  me->set_down_handler([this](caf::down_msg& x) {
    on_down(x);
    tell_owner();
  });
  options_.reader->watch(
    teller<disk_listing>(self_),
    [tell = teller<content_broken>(self_)](auto& x, auto& why) {
      tell({describe(x, {}).content, x.directory,
            std::make_shared<const error>(why)});
    });
  if (memory_left())
    on_tick(tick::value);
  // The relay holds the contents of a cache that crashed.
  if (auto relay = options_.find_relay())
    me->request(relay, 5s, get_contents{})
      .await( // before the first fetch
        [this](const contents_here& x) { adopt(x); },
        [](const caf::error&) { /* the relay holds no content */ });
  if (!options_.keeper)
    return;
  tier_.emplace(options_.disk.value, options_.evict, clock);
  options_.keeper->list(teller<kept_list>(self_));
}

timestamp cache_state::now() const {
  return self_->clock().now();
}

// -- requests -----------------------------------------------------------------

caf::result<fetched> cache_state::on_fetch(const fetch& request) {
  auto by = self_->current_sender(); // make_response_promise clears the sender
  key k{request.model, request.version, request.content};
  if (auto i = open_.find(k); i != open_.end() && is_current(k, i->second))
    if (auto content = i->second.content.lock(); content && is_good(*content)) {
      auto& there = i->second;
      auto room = make_room_for_more(there, request);
      auto from = !is_in_memory(there.from) ? "disk"
                  : is_whole(*content)      ? "memory"
                                            : there.giver;
      count_fetch(room ? where_found(from) : found_in::nowhere, by);
      if (room) {
        bring(there, request);
        use(there.from, there.info.content, by);
      }
      tell_owner();
      if (!room)
        return to_caf(room.failure());
      return fetched{std::move(content), there.info, from};
    }
  auto promise = self_->make_response_promise<fetched>();
  auto [i, fresh] = opening_.try_emplace(k);
  if (by && !is_relay(by)) // the relay repeats its requests
    self_->monitor(caf::actor_cast<caf::actor>(by));
  i->second.waiting.push_back({promise, request, std::move(by)});
  if (fresh)
    open_here(k);
  tell_owner();
  return promise;
}

void cache_state::open_here(const key& k) {
  options_.reader->open(
    std::get<0>(k), std::get<1>(k),
    make_room_to_read(k, find_here(std::get<0>(k), std::get<1>(k)))
      ? verify::into_memory
      : verify::all_but_weights,
    [k, tell = teller<bundle_opened>(self_)](auto content) {
      auto& [model, version, wanted] = k;
      tell({model, version, wanted,
            std::make_shared<decltype(content)>(std::move(content)), false});
    });
}

/// Returns the bundle with this model and version in the bundle directory, or
/// null.
const model_info* cache_state::find_here(const std::string& model,
                                         uint64_t version) const {
  auto i = std::find_if(on_disk_.begin(), on_disk_.end(), [&](auto& x) {
    return x.model == model && x.version == version;
  });
  return i == on_disk_.end() ? nullptr : &*i;
}

std::string cache_state::content_of(const std::string& model,
                                    uint64_t version) const {
  auto* here = find_here(model, version);
  return here == nullptr ? "" : here->content;
}

/// Returns whether the bundle directory holds an intact bundle of this content.
bool cache_state::is_put_here(const std::string& content) const {
  return !broken_.contains(content)
         && std::any_of(on_disk_.begin(), on_disk_.end(),
                        [&](auto& x) { return x.content == content; });
}

/// A fetch without a content refers to the bundle that the bundle directory
/// holds now.
bool cache_state::is_current(const key& k, const entry& known) const {
  auto& [model, version, wanted] = k;
  if (!wanted.empty() || known.from != place::read)
    return true;
  auto* here = find_here(model, version);
  return here != nullptr && here->content == known.info.content;
}

bool cache_state::is_relay(const caf::strong_actor_ptr& actor) const {
  auto relay = options_.find_relay();
  return relay && actor && relay.address() == actor->address();
}

/// Returns the relay for a request, and monitors the relay to detect its loss.
relay_actor cache_state::find_relay() {
  auto relay = options_.find_relay();
  if (relay && relays_.insert(relay.address()).second)
    self_->monitor(relay);
  return relay;
}

/// False after a failed transfer: the next fetch opens the bundle anew.
bool cache_state::is_good(const bundle& opened) {
  return !opened.weights_file || !opened.weights_file->is_given_up();
}

bool cache_state::is_whole(const bundle& opened) {
  return travelling::has(opened, 0, 0);
}

/// Whether all requested layers have arrived.
bool cache_state::is_there(const arrival& awaited) {
  return awaited.bytes
         && travelling::has(*awaited.bytes, awaited.layers.first,
                            awaited.layers.last);
}

/// Verified bytes of the weights.
uint64_t cache_state::bytes_there(const bundle& opened) {
  auto& file = opened.weights_file;
  return file ? std::min<uint64_t>(file->bytes(), file->chunks_there()
                                                    * file->bytes_of_chunk())
              : 0;
}

/// Requests the weights of the fetched layers from the source of the bundle.
void cache_state::bring(const entry& from, const fetch& request) {
  if (from.from != place::hosts) // the disk
    return options_.reader->bring(from.content.lock(), request.layers,
                                  request.rank);
  if (auto content = from.content.lock(); content && is_whole(*content))
    return;
  if (auto relay = find_relay())
    self_->request(relay, arrival_patience, request)
      .then([](const fetched&) { /* the caller has the bundle */ },
            [](const caf::error&) { /* the bundle reports it */ });
}

/// A bundle that the bundle directory lacks, or holds with another content, may
/// be in the disk cache, or else on other hosts.
void cache_state::on_opened(const bundle_opened& message) {
  key k{message.model, message.version, message.wanted};
  auto& sought = opening_.at(k);
  auto& found = *message.content;
  auto is_meant =
    found && (message.wanted.empty() || found->info.content == message.wanted);
  auto is_fine =
    is_meant && (message.kept || !broken_.contains(found->info.content));
  auto is_in_its_room = is_fine && sought.room
                        && sought.room->content() == found->info.content
                        && found->content->weights_file
                        && found->content->weights_file->is_in_memory();
  if (is_in_its_room)
    return settle(k, found, place::read);
  give_back(sought);
  if (is_fine)
    return settle(k, found, message.kept ? place::kept : place::disk);
  if (!found && found.failure().code != ec::unknown_model)
    log_event(log_level::error, "cache", "broken_bundle",
              {{"error", to_string(found.failure())}});
  if (!found && found.failure().code == ec::bad_config)
    quarantine(message.kept ? message.wanted
                            : content_of(message.model, message.version),
               message.kept, found.failure());
  if (sought.waiting.empty())
    return settle(k, error{ec::cancelled, "no fetch waits for the bundle", {}},
                  place::disk);
  if (!message.kept && !message.wanted.empty() && tier_
      && tier_->may_have(message.wanted))
    return options_.keeper->open(
      message.wanted,
      make_room_to_read(k, tier_->find(message.wanted))
        ? verify::into_memory
        : verify::all_but_weights,
      [message, tell = teller<bundle_opened>(self_)](auto content) {
        tell({message.model, message.version, message.wanted,
              std::make_shared<decltype(content)>(std::move(content)), true});
      });
  if (!message.wanted.empty() && options_.find_relay())
    return get_elsewhere(k);
  settle(k,
         found
           ? error{ec::conflict, "the bundle on this host has another content"}
           : found,
         place::disk);
}

void cache_state::get_elsewhere(const key& k) {
  auto& sought = opening_.at(k);
  if (auto room = make_room(sought); !room)
    return settle(k, room.failure(), place::hosts);
  auto relay = find_relay();
  auto address = relay.address();
  auto number = ++asked_relay_;
  sought.at_relay = number;
  auto take = [this, k, address, number](const result<fetched>& y) {
    // Otherwise the request was settled when the relay was lost, is opened on
    // this host again, or was sent to the relay again.
    auto i = opening_.find(k);
    if (relays_.contains(address) && i != opening_.end()
        && i->second.at_relay == number) {
      settle(k, y, place::hosts);
      tell_owner();
    }
  };
  self_->request(relay, arrival_patience, sought.waiting.front().what)
    .then([take](const fetched& y) { take(y); },
          [take](const caf::error& why) { take(from_caf(why)); });
}

/// Files in the bundle directory changed: a bundle that could not be opened
/// there, and was requested from other hosts, may be repaired.
void cache_state::open_what_is_back(const std::set<std::string>& changed) {
  for (auto& k : at_relay()) {
    auto& [model, version, wanted] = k;
    auto& sought = opening_.at(k);
    auto* here = find_here(model, version);
    if (here == nullptr || here->content != wanted || !changed.contains(wanted)
        || sought.waiting.empty())
      continue;
    sought.at_relay.reset();
    sought.room.reset();
    forget(wanted); // so that the relay stops the transfer
    open_here(k);
  }
}

void cache_state::settle(const key& k, result<fetched> found, place from) {
  auto sought = std::move(opening_.extract(k).mapped());
  auto content = found ? found->info.content : std::get<2>(k);
  if (found && from == place::hosts)
    if (auto room = make_room_as_told(*found); !room)
      found = room.failure();
  if (found && is_in_memory(from)) {
    auto& x = arrivals_[content];
    if (x.bytes && is_good(*x.bytes)) { // under another name, or earlier
      found->content = x.bytes;
      from = x.from;
    } else {
      x.bytes = found->content;
      x.info = describe(*found->content, {});
      x.used = now();
      x.from = from;
    }
  }
  if (found) {
    std::erase_if(open_, [](auto& x) { return x.second.content.expired(); });
    open_[k] = {found->content, found->info, from, found->from};
  }
  for (auto& [promise, what, by] : sought.waiting) {
    auto room = found ? make_room_for_more(open_[k], what)
                      : result<void>{found.failure()};
    count_fetch(room ? where_found(found->from) : found_in::nowhere, by);
    if (!room) {
      promise.deliver(to_caf(room.failure()));
      continue;
    }
    bring(open_[k], what);
    use(from, content, by);
    promise.deliver(*found);
  }
  if (!is_in_memory(from))
    return;
  if (found) {
    watch_until_whole(content, *found->content);
    self_->delayed_send(self_, left_alone, content_unused{content});
  }
  sought.room.reset();
  if (!found) {
    if (found.failure().code == ec::unavailable) // no other host has it either
      broken_.erase(content); // the disk may have misread the bundle once
    forget(content);
  }
}

// -- reports ------------------------------------------------------------------

/// Lists the complete bundles in memory or in the disk cache that the bundle
/// directory does not hold. Such a bundle may outlive its source.
std::vector<model_info> cache_state::all_from_others() const {
  std::map<std::string, model_info> out;
  for (auto& [content, x] : arrivals_)
    if (x.bytes && is_good(*x.bytes) && is_whole(*x.bytes))
      out.emplace(content, x.info);
  if (tier_)
    out.insert(tier_->all().begin(), tier_->all().end());
  for (auto& x : on_disk_)
    if (!broken_.contains(x.content))
      out.erase(x.content);
  std::vector<model_info> list;
  for (auto& [content, x] : out)
    list.push_back(std::move(x));
  return list;
}

/// Fetches by the relay are counted on the host that needs the bundle.
void cache_state::count_fetch(found_in where, const caf::strong_actor_ptr& by) {
  if (!is_relay(by))
    figures_->fetches.at(where).add();
}

cache_state::figures::figures(metrics& counts)
  : memory{counts.cache_bytes(cache_tier::memory),
           counts.cache_limit_bytes(cache_tier::memory),
           counts.cache_evictions(cache_tier::memory)},
    disk{counts.cache_bytes(cache_tier::disk),
         counts.cache_limit_bytes(cache_tier::disk),
         counts.cache_evictions(cache_tier::disk)},
    quarantined(counts.cache_quarantined()) {
  for (size_t i = 0; i < names_of(found_in{}).size(); ++i) {
    auto where = static_cast<found_in>(i);
    fetches.emplace(where, counts.cache_fetches(where));
  }
}

void cache_state::figures::show(const cache_book& in_memory,
                                const disk_cache* on_disk) {
  auto set = [](tier& to, const cache_book& x) {
    to.bytes.set(static_cast<double>(x.held()));
    to.limit.set(static_cast<double>(x.capacity()));
  };
  set(memory, in_memory);
  if (on_disk != nullptr)
    set(disk, on_disk->book());
}

/// Sends the owner a changed list of bundles. Called after each message that
/// may change the list; sends nothing before the bundle directory is listed.
void cache_state::tell_owner() {
  figures_->show(*memory_, tier_ ? &*tier_ : nullptr);
  if (!listed_)
    return;
  bundle_list all{on_disk_, all_from_others(), unusable_, memory_to_tell(),
                  memory_->list()};
  for (auto& [content, why] : broken_)
    all.troubles.push_back(why);
  for (auto& [content, x] : arrivals_)
    if (!x.not_kept.empty())
      all.troubles.push_back(x.not_kept);
  if (told_ == all)
    return;
  told_ = std::move(all);
  self_->send(options_.owner, *told_);
}

cached_bundle cache_state::describe_on_disk(const model_info& model,
                                            cache_place place) const {
  cached_bundle out;
  out.model = model.model;
  out.version = model.version;
  out.content = model.content;
  out.state = place;
  out.bytes = model.bytes;
  out.last = place == cache_place::kept && tier_->book().is_last(model.content);
  for (auto& [k, e] : open_)
    if (auto content = e.content.lock(); content && !is_in_memory(e.from)
                                         && e.info.model == model.model
                                         && e.info.version == model.version)
      out.there = std::max(out.there, bytes_there(*content));
  return out;
}

cache_status cache_state::on_get_cache() const {
  cache_status out;
  out.held = memory_->held();
  out.capacity = memory_->capacity();
  for (auto& x : on_disk_)
    out.bundles.push_back(describe_on_disk(x, broken_.contains(x.content)
                                                ? cache_place::broken
                                                : cache_place::disk));
  if (tier_) {
    for (auto& [content, x] : tier_->all())
      out.bundles.push_back(describe_on_disk(x, cache_place::kept));
    out.disk_held = tier_->book().held();
    out.disk_capacity = tier_->book().capacity();
  }
  for (auto& [id, x] : arrivals_) {
    cached_bundle y;
    y.content = id;
    y.state = cache_place::arriving;
    y.users = memory_->users_of(id);
    y.idle = to_us(now() - x.used);
    y.last = memory_->is_last(id);
    if (x.bytes) {
      y.model = x.bytes->info.name;
      y.version = x.bytes->info.version;
      y.bytes = x.bytes->info.weights.bytes;
      y.there = bytes_there(*x.bytes);
      if (y.there == y.bytes)
        y.state = cache_place::memory;
    } else {
      y.model = x.info.model;
      y.version = x.info.version;
      y.bytes = x.info.bytes;
    }
    out.bundles.push_back(std::move(y));
  }
  return out;
}

cache_actor::behavior_type
cache(cache_actor::stateful_pointer<cache_state> self, cache_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](const fetch& x) { return s.on_fetch(x); },
    s.hears(&cache_state::on_used),
    [&s](get_cache) { return s.on_get_cache(); },
    [&s](get_contents) { return s.on_get_contents(); },
    s.hears(&cache_state::on_opened),
    s.hears(&cache_state::on_listed),
    s.hears(&cache_state::on_kept_list),
    s.hears(&cache_state::on_whole),
    s.hears(&cache_state::on_kept),
    s.hears(&cache_state::on_broken),
    s.hears(&cache_state::on_pinned_contents),
    s.hears(&cache_state::on_content_unused),
    s.hears(&cache_state::on_tick),
  };
}

} // namespace millrace
