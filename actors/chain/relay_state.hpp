// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Contents of a RELAY. Problem: a content is relayed while it arrives, and
/// sources, the cache and controllers can fail in the meantime. Approach: the
/// cache requests a content by fetch, a chain controller names its sources by
/// set_sources, and the bulk port transfers chunks and reports them
/// (content_begun, content_found, content_got, content_lost).
///
/// States of a content (struct content) and transitions:
///   on disk  reported only. pin_content -> opened by the cache, offered;
///            fetch -> wanted
///   wanted   a pull runs at the bulk port. Offered from the start, so that a
///            chain stands before its first chunk arrives.
///            no chunk missing -> offered; no source for long (give_up_alone),
///            drop_content or an error -> on disk, or erased (fail)
///   offered  in memory, other hosts fetch it by its token.
///            drop_content or the end of the pin -> on disk, or erased

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

  caf::result<fetched> on_fetch(const fetch& request);
  void on_bundle_list(const bundle_list& message);
  void on_drop_content(const drop_content& message);
  contents_here on_get_contents() const;
  void on_set_sources(const set_sources& message);
  void on_pin_content(const pin_content& message);
  void on_pinned_contents(const pinned_contents& message);
  void on_begun(const content_begun& message);
  void on_found(const content_found& message);
  void on_got(const content_got& message);
  void on_lost(const content_lost& message);
  void on_broken(const content_broken& message);
  void on_peer_up(const peer_up& message);
  void on_peer_down(const peer_down& message);
  void on_tick();
  void report_soon();

private:
  struct content {
    model_info info;
    std::shared_ptr<const bundle> bytes; ///< null: not in memory (yet)
    bool found = false;                  ///< the layout of its weights is known
    std::string token;                   ///< empty: not offered
    bool here = false;                   ///< on this host's disk
    bool lasts = false;                  ///< in the operator's bundle directory
    bool held = false;                   ///< as in pin_content
    bool wants = false;                  ///< is being fetched
    layer_range layers;                  ///< layers fetched; {0, 0}: all
    transfer_rank rank = transfer_rank::start;
    uint64_t pull = 0;             ///< number of its pull order
    uint64_t missing = 0;          ///< chunks yet to arrive
    std::vector<std::string> from; ///< current sources
    std::string after;             ///< as in set_sources
    timestamp quiet{};             ///< when the last chunk arrived
    /// Since when it has no source; far_future: it has one, or waits for
    /// another node (after), or is not wanted.
    timestamp alone = far_future;
    std::string last_loss; ///< why the last source was lost
    std::vector<caf::typed_response_promise<fetched>> waiting;
  };

  static bool has(const content& c, const layer_range& layers);
  static std::string giver_of(const content& c);
  void pull(const std::string& id, content& held);
  void give_up_alone();
  void fail(const std::string& id, content& c, const error& why);
  void offer(const std::string& id, content& held);
  std::function<void(const error&)> broken_teller(const std::string& id,
                                                  const bundle& opened);
  void adopt(const contents_here& message);
  void on_held(const std::string& id, const fetched& message);
  void close(const std::string& id, content& c);
  void report();
  timestamp now() const;
  content_state content_state_of(const std::string& id, const content& c) const;

  relay_actor::stateful_pointer<relay_state> self_ = nullptr;
  relay_options options_;
  std::map<std::string, content> contents_;
  std::set<std::string> controllers_; ///< nodes
  pinned_contents pinned_contents_;   ///< last one received
  uint64_t pulls_ = 0;                ///< pull orders so far
  std::optional<counter> sources_lost_;
  alarm alarm_;
  timestamp reported_{};
};

} // namespace millrace
