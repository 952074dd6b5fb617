// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "actors/cache/cache.hpp"
#include "actors/cache/cache_book.hpp"

namespace millrace {

/// State of a CACHE; see cache.hpp.
struct cache_state {
  const char* name = "cache";

  caf::result<fetched> on_fetch(const fetch& x);
  void on_opened(const bundle_opened& x);
  void on_listed(const bundle_list& x);
  cache_status on_get_cache() const;
  void start(cache_actor::stateful_pointer<cache_state> me,
             cache_options options);

private:
  /// A model, its version, and the content that is meant, if one is.
  using key = std::tuple<std::string, uint64_t, std::string>;

  /// A way for the reader's thread to reach this actor.
  template <class T>
  auto teller();

  struct entry {
    std::weak_ptr<const bundle> content;
    model_info info;
    bool here = true; ///< on this host's disk
  };

  /// One that came from another host.
  struct kept {
    std::shared_ptr<const bundle> bytes; ///< null: it is on its way
    timestamp used;
  };

  struct asked {
    caf::typed_response_promise<fetched> promise;
    fetch what;
    caf::strong_actor_ptr by;
  };

  static bool is_good(const bundle& x);
  timestamp now() const;
  void get_elsewhere(const key& k);
  result<void> make_room(const fetch& x);
  void forget(const std::string& content);
  void use(const std::string& content, const caf::strong_actor_ptr& by);
  void on_down(const caf::down_msg& x);
  void give_up_arriving();
  void bring(const entry& from, const fetch& x);
  void settle(const key& k, const result<fetched>& found, bool here);

  cache_actor::stateful_pointer<cache_state> self_ = nullptr;
  cache_options options_;
  std::map<key, entry> open_;
  std::optional<cache_book> memory_; ///< of what came from other hosts
  std::map<std::string, kept> kept_; ///< that, by content
  /// Of those: who uses which. An actor may use one twice.
  std::multimap<caf::actor_addr, std::string> users_;
  std::set<caf::actor_addr> relays_; ///< that were asked for something
  std::vector<model_info> on_disk_;
  std::map<key, std::vector<asked>> opening_;
  std::set<key> at_relay_; ///< of those: what the relay is to get
};

} // namespace millrace
