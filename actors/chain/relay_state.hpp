// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>

#include "actors/chain/relay.hpp"

namespace millrace {

/// State of a RELAY; see relay.hpp.
struct relay_state {
  const char* name = "relay";

  void start(relay_actor::stateful_pointer<relay_state> self,
             relay_options options);

  caf::result<fetched> on_fetch(const fetch& x);
  void on_bundle_list(const bundle_list& x);
  void on_drop_content(const drop_content& x);
  contents_here on_get_contents() const;
  void on_set_sources(const set_sources& x);
  void on_pin_content(const pin_content& x);
  void on_pinned_contents(const pinned_contents& x);
  void on_begun(const content_begun& x);
  void on_found(const content_found& x);
  void on_got(const content_got& x);
  void on_lost(const content_lost& x);
  void on_broken(const content_broken& x);
  void on_peer_up(const peer_up& x);
  void on_peer_down(const peer_down& x);
  void on_tick();
  void report_soon();

private:
  struct content {
    model_info info;
    std::shared_ptr<const bundle> bytes; ///< null: not in memory (yet)
    bool found = false;                  ///< where its weights lie is known
    std::string token;                   ///< empty: not offered
    bool here = false;                   ///< on this host's disk
    bool lasts = false;                  ///< and put there by people
    bool held = false;                   ///< as in pin_content
    bool wants = false;                  ///< is being brought
    layer_range layers;                  ///< of those, or all ({0, 0})
    transfer_rank rank = transfer_rank::start;
    uint64_t pull = 0; ///< which it is, of all
    uint64_t missing = 0;
    std::vector<std::string> from;
    std::string after; ///< as in set_sources
    timestamp quiet{}; ///< since when none of it has come
    /// And nobody is there to get it from, or only who gives nothing.
    timestamp alone = far_future;
    std::string last_loss; ///< why the last source was lost
    std::vector<caf::typed_response_promise<fetched>> waiting;
  };

  static bool has(const content& c, const layer_range& layers);
  static std::string giver_of(const content& c);
  void pull(const std::string& id, content& x);
  void give_up_alone();
  void fail(const std::string& id, content& c, const error& why);
  void offer(const std::string& id, content& x);
  std::function<void(const error&)> broken_teller(const std::string& id,
                                                  const bundle& x);
  void adopt(const contents_here& x);
  void on_held(const std::string& id, const fetched& x);
  void close(const std::string& id, content& c);
  void report();
  timestamp now() const;
  content_state content_state_of(const std::string& id, const content& c) const;

  relay_actor::stateful_pointer<relay_state> self_ = nullptr;
  relay_options options_;
  std::map<std::string, content> contents_;
  std::set<std::string> controllers_; ///< nodes
  pinned_contents pinned_contents_;   ///< as it was told
  uint64_t pulls_ = 0;                ///< that there were
  std::optional<counter> sources_lost_;
  alarm alarm_;
  timestamp reported_{};
};

} // namespace millrace
