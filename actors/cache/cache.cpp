// SPDX-License-Identifier: Apache-2.0
#include "actors/cache/cache_state.hpp"

#include <algorithm>

#include "models/travelling_bundle.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// To get a large model from another host over a slow link takes that long;
/// before that the relay says why it cannot.
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
  if (auto relay = options_.find_relay()) // from before a crash
    me->request(relay, 5s, get_contents{})
      .await( // before anybody asks for something
        [this](const contents_here& x) { adopt(x); },
        [](const caf::error&) { /* it has nothing yet */ });
  if (!options_.keeper)
    return;
  tier_.emplace(options_.disk.value, options_.evict, clock);
  options_.keeper->list(teller<kept_list>(self_));
}

timestamp cache_state::now() const {
  return self_->clock().now();
}

// -- who asks -----------------------------------------------------------------

caf::result<fetched> cache_state::on_fetch(const fetch& x) {
  auto by = self_->current_sender(); // whom the promise takes with it
  key k{x.model, x.version, x.content};
  if (auto i = open_.find(k); i != open_.end() && is_current(k, i->second))
    if (auto content = i->second.content.lock(); content && is_good(*content)) {
      auto& there = i->second;
      auto room = make_room_for_more(there, x);
      auto from = !is_in_memory(there.from) ? "disk"
                  : is_whole(*content)      ? "memory"
                                            : there.giver;
      count_fetch(room ? where_found(from) : found_in::nowhere, by);
      if (room) {
        bring(there, x);
        use(there.from, there.info.content, by);
      }
      tell_owner();
      if (!room)
        return to_caf(room.failure());
      return fetched{std::move(content), there.info, from};
    }
  auto promise = self_->make_response_promise<fetched>();
  auto [i, fresh] = opening_.try_emplace(k);
  if (by && !is_relay(by)) // which asks again and again
    self_->monitor(caf::actor_cast<caf::actor>(by));
  i->second.waiting.push_back({promise, x, std::move(by)});
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

/// What people put here under that name; null: nothing.
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

/// By people, and it is not broken.
bool cache_state::is_put_here(const std::string& content) const {
  return !broken_.contains(content)
         && std::any_of(on_disk_.begin(), on_disk_.end(),
                        [&](auto& x) { return x.content == content; });
}

/// Whoever does not say which content is meant means the one that is here now.
bool cache_state::is_current(const key& k, const entry& x) const {
  auto& [model, version, wanted] = k;
  if (!wanted.empty() || x.from != place::read)
    return true;
  auto* here = find_here(model, version);
  return here != nullptr && here->content == x.info.content;
}

bool cache_state::is_relay(const caf::strong_actor_ptr& x) const {
  auto relay = options_.find_relay();
  return relay && x && relay.address() == x->address();
}

/// To ask it for something: it is known when it is lost.
relay_actor cache_state::find_relay() {
  auto relay = options_.find_relay();
  if (relay && relays_.insert(relay.address()).second)
    self_->monitor(relay);
  return relay;
}

/// One that came with an error is opened anew.
bool cache_state::is_good(const bundle& x) {
  return !x.weights_file || !x.weights_file->is_given_up();
}

bool cache_state::is_whole(const bundle& x) {
  return travelling::has(x, 0, 0);
}

/// What it was to come for.
bool cache_state::is_there(const arrival& x) {
  return x.bytes && travelling::has(*x.bytes, x.layers.first, x.layers.last);
}

/// Of its weights, those that are verified.
uint64_t cache_state::bytes_there(const bundle& x) {
  auto& file = x.weights_file;
  return file ? std::min<uint64_t>(file->bytes(), file->chunks_there()
                                                    * file->bytes_of_chunk())
              : 0;
}

/// Has the weights come that somebody needs, from where the bundle is from.
void cache_state::bring(const entry& from, const fetch& x) {
  if (from.from != place::hosts) // the disk
    return options_.reader->bring(from.content.lock(), x.layers, x.rank);
  if (auto content = from.content.lock(); content && is_whole(*content))
    return;
  if (auto relay = find_relay())
    self_->request(relay, arrival_patience, x)
      .then([](const fetched&) { /* who asked has it */ },
            [](const caf::error&) { /* the bundle says it */ });
}

/// What is not where people put bundles, or is another of that name there, may
/// have been kept; else other hosts may have it.
void cache_state::on_opened(const bundle_opened& x) {
  key k{x.model, x.version, x.wanted};
  auto& sought = opening_.at(k);
  auto& found = *x.content;
  auto is_meant =
    found && (x.wanted.empty() || found->info.content == x.wanted);
  auto is_fine = is_meant && (x.kept || !broken_.contains(found->info.content));
  auto is_in_its_room = is_fine && sought.room
                        && sought.room->content() == found->info.content
                        && found->content->weights_file
                        && found->content->weights_file->is_in_memory();
  if (is_in_its_room)
    return settle(k, found, place::read);
  give_back(sought);
  if (is_fine)
    return settle(k, found, x.kept ? place::kept : place::disk);
  if (!found && found.failure().code != ec::unknown_model)
    log_event(log_level::error, "cache", "broken_bundle",
              {{"error", to_string(found.failure())}});
  if (!found && found.failure().code == ec::bad_config)
    quarantine(x.kept ? x.wanted : content_of(x.model, x.version), x.kept,
               found.failure());
  if (sought.waiting.empty())
    return settle(k, error{ec::cancelled, "nobody waits for it", {}},
                  place::disk);
  if (!x.kept && !x.wanted.empty() && tier_ && tier_->may_have(x.wanted))
    return options_.keeper->open(
      x.wanted,
      make_room_to_read(k, tier_->find(x.wanted)) ? verify::into_memory
                                                  : verify::all_but_weights,
      [x, tell = teller<bundle_opened>(self_)](auto content) {
        tell({x.model, x.version, x.wanted,
              std::make_shared<decltype(content)>(std::move(content)), true});
      });
  if (!x.wanted.empty() && options_.find_relay())
    return get_elsewhere(k);
  settle(k,
         found
           ? error{ec::conflict, "the bundle here is not the one that is meant"}
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
    // Else it was settled when that was lost, or is opened here again, or asked
    // for once more.
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

/// Files have changed where people put bundles: what could not be opened there,
/// and is to come from others, may have been mended.
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
    forget(wanted); // so that its relay stops
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
    if (x.bytes && is_good(*x.bytes)) { // under another name, or from before
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
    if (found.failure().code == ec::unavailable) // nor has anybody else it
      broken_.erase(content); // the disk may have misread it, once
    forget(content);
  }
}

// -- who hears of it ----------------------------------------------------------

/// What there is all of here, in memory or kept on the disk, and people have
/// not put here: it may outlive where it came from.
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

/// What others need is counted where it is needed.
void cache_state::count_fetch(found_in where, const caf::strong_actor_ptr& by) {
  if (!is_relay(by))
    figures_->fetches.at(where).add();
}

cache_state::figures::figures(metrics& x)
  : memory{x.cache_bytes(cache_tier::memory),
           x.cache_limit_bytes(cache_tier::memory),
           x.cache_evictions(cache_tier::memory)},
    disk{x.cache_bytes(cache_tier::disk), x.cache_limit_bytes(cache_tier::disk),
         x.cache_evictions(cache_tier::disk)},
    quarantined(x.cache_quarantined()) {
  for (size_t i = 0; i < names_of(found_in{}).size(); ++i) {
    auto where = static_cast<found_in>(i);
    fetches.emplace(where, x.cache_fetches(where));
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

/// Once it is known what people put here; after each message that may have
/// changed something.
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

cached_bundle cache_state::describe_on_disk(const model_info& x,
                                            cache_place place) const {
  cached_bundle out;
  out.model = x.model;
  out.version = x.version;
  out.content = x.content;
  out.state = place;
  out.bytes = x.bytes;
  out.last = place == cache_place::kept && tier_->book().is_last(x.content);
  for (auto& [k, e] : open_)
    if (auto content = e.content.lock(); content && !is_in_memory(e.from)
                                         && e.info.model == x.model
                                         && e.info.version == x.version)
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
