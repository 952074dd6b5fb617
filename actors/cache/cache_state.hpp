// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "actors/cache/cache.hpp"
#include "actors/cache/disk_cache.hpp"

namespace millrace {

/// State of a CACHE; see cache.hpp.
struct cache_state {
  const char* name = "cache";

  caf::result<fetched> on_fetch(const fetch& request);
  void on_used(const content_here& message);
  void on_opened(const bundle_opened& message);
  void on_listed(const disk_listing& message);
  void on_kept_list(const kept_list& message);
  void on_whole(const content_whole& message);
  void on_kept(const content_kept& message);
  void on_broken(const content_broken& message);
  void on_pinned_contents(const pinned_contents& message);
  void on_content_unused(const content_unused& message);
  void on_tick(tick);
  cache_status on_get_cache() const;
  contents_here on_get_contents() const;

  /// Wraps a handler: runs it, then reports changes to the owner.
  template <class T>
  auto hears(void (cache_state::*does)(T)) {
    return [this, does](T x) {
      (this->*does)(x);
      tell_owner();
    };
  }
  void start(cache_actor::stateful_pointer<cache_state> me,
             cache_options options);

private:
  /// Metrics of the cache; created at start, so that a scrape sees the first
  /// change.
  struct figures {
    explicit figures(metrics& counts);
    void show(const cache_book& memory, const disk_cache* disk);
    struct tier {
      gauge bytes, limit;
      counter evictions;
    };
    tier memory, disk;
    std::map<found_in, counter> fetches;
    counter quarantined;
  };

  /// Model, version, and the requested content; empty: any content.
  using key = std::tuple<std::string, uint64_t, std::string>;

  /// A transfer is cancelled after it had no users for this time.
  static constexpr auto left_alone = 2s;

  /// Location of an open bundle.
  enum class place : uint8_t {
    disk, ///< in the bundle directory
    kept, ///< in the disk cache
    read, ///< in memory, read from the bundle directory
    hosts ///< in memory, fetched from other hosts
  };
  static bool is_in_memory(place where) { return where >= place::read; }

  struct entry {
    std::weak_ptr<const bundle> content;
    model_info info;
    place from = place::disk;
    std::string giver; ///< fetched::from until the bundle is complete
  };

  /// A bundle in memory, or in transfer to memory.
  struct arrival {
    std::shared_ptr<const bundle> bytes; ///< null: no part has arrived
    model_info info; ///< from `bytes`, or from the fetch while that is null
    timestamp used;
    place from = place::hosts;
    layer_range layers; ///< layers with reserved room; {0, 0}: all layers
    /// Held during the write to the disk cache.
    std::optional<cache_book::lease> written{};
    std::string not_kept{}; ///< error of the last such write; empty: none
  };

  struct asked {
    caf::typed_response_promise<fetched> promise;
    fetch what;
    caf::strong_actor_ptr by;
  };

  /// A bundle that is being opened or fetched.
  struct opening {
    std::vector<asked> waiting;
    std::optional<cache_book::lease> room; ///< reserved room in memory
    /// Number of the pending request to the relay; nothing: none is pending.
    std::optional<uint64_t> at_relay;
  };

  static bool is_good(const bundle& opened);
  static bool is_whole(const bundle& opened);
  static bool is_there(const arrival& awaited);
  static uint64_t bytes_there(const bundle& opened);
  timestamp now() const;
  const model_info* find_here(const std::string& model, uint64_t version) const;
  std::string content_of(const std::string& model, uint64_t version) const;
  bool is_put_here(const std::string& content) const;
  bool is_current(const key& k, const entry& known) const;
  bool is_relay(const caf::strong_actor_ptr& actor) const;
  relay_actor find_relay();
  void open_here(const key& k);
  bool make_room_to_read(const key& k, const model_info* from);
  uint64_t memory_to_tell() const;
  std::optional<int64_t> memory_left() const;
  uint64_t limit_of_memory(int64_t left) const;
  void limit_memory();
  void give_back(opening& begun);
  void get_elsewhere(const key& k);
  void open_what_is_back(const std::set<std::string>& changed);
  std::string model_of(const std::string& content) const;
  result<void> make_room(opening& begun);
  result<void> make_room_as_told(const fetched& answer);
  result<void> make_room_for_more(const entry& from, const fetch& request);
  result<void> grow(const std::string& content, uint64_t bytes);
  void evict(const std::vector<std::string>& contents);
  void forget(const std::string& content);
  void adopt(const contents_here& message);
  void adopt(const content_here& message);
  void use(place from, const std::string& content,
           const caf::strong_actor_ptr& by);
  void watch_until_whole(const std::string& content, const bundle& opened);
  void drop_kept(const std::string& content);
  void quarantine(const std::string& content, bool kept, const error& why);
  void disk_changed();
  void keep_pinned_contents();
  bundle_list list() const;
  cached_bundle describe_on_disk(const model_info& model,
                                 cache_place place) const;
  void tell_owner();
  void count_fetch(found_in where, const caf::strong_actor_ptr& by);
  std::vector<model_info> all_from_others() const;
  void on_down(const caf::down_msg& message);
  std::vector<key> at_relay() const;
  void give_up_arriving();
  void bring(const entry& from, const fetch& request);
  void settle(const key& k, result<fetched> found, place from);

  cache_actor::stateful_pointer<cache_state> self_ = nullptr;
  cache_options options_;
  std::optional<figures> figures_;
  std::map<key, entry> open_;
  std::optional<cache_book> memory_;
  std::map<std::string, arrival> arrivals_; ///< bundles in memory, by content
  std::set<std::string> pinned_contents_;   ///< contents that no other host has
  std::optional<disk_cache> tier_;          ///< the disk cache, if there is one
  /// Errors of bundles in the bundle directory, by content, until their files
  /// change.
  std::map<std::string, std::string> broken_;
  /// Leases by user. An actor may hold several leases of one content.
  std::multimap<caf::actor_addr, cache_book::lease> users_;
  std::set<caf::actor_addr> relays_; ///< monitored relays
  std::vector<model_info> on_disk_;
  std::vector<std::string> unusable_; ///< as in disk_listing
  bool listed_ = false;               ///< on_disk_ is known
  std::optional<bundle_list> told_;   ///< last report to the owner
  std::map<key, opening> opening_;
  uint64_t asked_relay_ = 0;
};

} // namespace millrace
