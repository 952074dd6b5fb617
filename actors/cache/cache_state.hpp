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

  caf::result<fetched> on_fetch(const fetch& x);
  void on_used(const content_here& x);
  void on_opened(const bundle_opened& x);
  void on_listed(const disk_listing& x);
  void on_kept_list(const kept_list& x);
  void on_whole(const content_whole& x);
  void on_kept(const content_kept& x);
  void on_broken(const content_broken& x);
  void on_pinned_contents(const pinned_contents& x);
  void on_content_unused(const content_unused& x);
  void on_tick(tick);
  cache_status on_get_cache() const;
  contents_here on_get_contents() const;

  /// Has a message dealt with, and its owner told what has come of it.
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
  /// What of it metrics show; there from the start, so that whoever reads them
  /// sees the first change, too.
  struct figures {
    explicit figures(metrics& x);
    void show(const cache_book& memory, const disk_cache* disk);
    struct tier {
      gauge bytes, limit;
      counter evictions;
    };
    tier memory, disk;
    std::map<found_in, counter> fetches;
    counter quarantined;
  };

  /// A model, its version, and the content that is meant, if one is.
  using key = std::tuple<std::string, uint64_t, std::string>;

  /// What nobody uses for so long need not come any more.
  static constexpr auto left_alone = 2s;

  /// Where an open bundle is.
  enum class place : uint8_t {
    disk, ///< where people put bundles
    kept, ///< what came from other hosts, on the disk
    read, ///< memory that it is read into, from where people put it
    hosts ///< memory that it comes into from other hosts
  };
  static bool is_in_memory(place x) { return x >= place::read; }

  struct entry {
    std::weak_ptr<const bundle> content;
    model_info info;
    place from = place::disk;
    std::string giver; ///< as in fetched, of what has not come yet
  };

  /// One in memory, or on its way there.
  struct arrival {
    std::shared_ptr<const bundle> bytes; ///< null: nothing of it is there
    model_info info; ///< of them, or as who asked for it knew it
    timestamp used;
    place from = place::hosts;
    layer_range layers; ///< for which it has room; {0, 0}: for all
    std::optional<cache_book::lease> written{}; ///< to the disk, now
    std::string not_kept{}; ///< why it could not be; empty: it could
  };

  struct asked {
    caf::typed_response_promise<fetched> promise;
    fetch what;
    caf::strong_actor_ptr by;
  };

  /// One that is looked for.
  struct opening {
    std::vector<asked> waiting;
    std::optional<cache_book::lease> room; ///< in memory, taken for it
    /// The relay is to get it, and was asked with this number.
    std::optional<uint64_t> at_relay;
  };

  static bool is_good(const bundle& x);
  static bool is_whole(const bundle& x);
  static bool is_there(const arrival& x);
  static uint64_t bytes_there(const bundle& x);
  timestamp now() const;
  const model_info* find_here(const std::string& model, uint64_t version) const;
  std::string content_of(const std::string& model, uint64_t version) const;
  bool is_put_here(const std::string& content) const;
  bool is_current(const key& k, const entry& x) const;
  bool is_relay(const caf::strong_actor_ptr& x) const;
  relay_actor find_relay();
  void open_here(const key& k);
  bool make_room_to_read(const key& k, const model_info* from);
  uint64_t memory_to_tell() const;
  std::optional<int64_t> memory_left() const;
  uint64_t limit_of_memory(int64_t left) const;
  void limit_memory();
  void give_back(opening& x);
  void get_elsewhere(const key& k);
  void open_what_is_back(const std::set<std::string>& changed);
  std::string model_of(const std::string& content) const;
  result<void> make_room(opening& x);
  result<void> make_room_as_told(const fetched& x);
  result<void> make_room_for_more(const entry& from, const fetch& x);
  result<void> grow(const std::string& content, uint64_t bytes);
  void evict(const std::vector<std::string>& contents);
  void forget(const std::string& content);
  void adopt(const contents_here& x);
  void adopt(const content_here& x);
  void use(place from, const std::string& content,
           const caf::strong_actor_ptr& by);
  void watch_until_whole(const std::string& content, const bundle& x);
  void drop_kept(const std::string& content);
  void quarantine(const std::string& content, bool kept, const error& why);
  void disk_changed();
  void keep_pinned_contents();
  bundle_list list() const;
  cached_bundle describe_on_disk(const model_info& x, cache_place place) const;
  void tell_owner();
  void count_fetch(found_in where, const caf::strong_actor_ptr& by);
  std::vector<model_info> all_from_others() const;
  void on_down(const caf::down_msg& x);
  std::vector<key> at_relay() const;
  void give_up_arriving();
  void bring(const entry& from, const fetch& x);
  void settle(const key& k, result<fetched> found, place from);

  cache_actor::stateful_pointer<cache_state> self_ = nullptr;
  cache_options options_;
  std::optional<figures> figures_;
  std::map<key, entry> open_;
  std::optional<cache_book> memory_;
  std::map<std::string, arrival> arrivals_; ///< what is in it, by content
  std::set<std::string> pinned_contents_;   ///< contents that no other host has
  std::optional<disk_cache> tier_; ///< on the disk; none: nothing is kept there
  /// Why contents are, where people put them, until their files change.
  std::map<std::string, std::string> broken_;
  /// Who uses what. An actor may use one twice.
  std::multimap<caf::actor_addr, cache_book::lease> users_;
  std::set<caf::actor_addr> relays_; ///< that were asked for something
  std::vector<model_info> on_disk_;
  std::vector<std::string> unusable_; ///< as in disk_listing
  bool listed_ = false;               ///< that is known
  std::optional<bundle_list> told_;   ///< to the owner, last
  std::map<key, opening> opening_;
  uint64_t asked_relay_ = 0;
};

} // namespace millrace
