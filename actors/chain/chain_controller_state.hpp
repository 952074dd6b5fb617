// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>

#include "actors/chain/chain_book.hpp"
#include "actors/chain/chain_controller.hpp"

namespace millrace {

/// State of a CHAIN CONTROLLER; see chain_controller.hpp.
struct chain_controller_state {
  const char* name = "chains";

  void
  start(chain_controller_actor::stateful_pointer<chain_controller_state> self,
        chain_options options);

  void on_content_report(content_report& message);
  void on_peer_down(const peer_down& message);
  chain_list on_get_chains() const;
  void on_tick();

private:
  /// A content and its chunks; no chunks: all.
  using part = std::pair<std::string, std::vector<chunk_range>>;

  /// The nodes of shared hosts that want a part.
  struct sharing {
    std::map<std::string, std::string> first; ///< by host: node that fetches
    std::map<std::string, std::string> waits; ///< by waiting node: that node
  };

  /// The last set_sources to a node.
  struct order {
    set_sources what;
    timestamp when;
    nanoseconds again{0}; ///< time until it is repeated
    uint64_t missing = 0; ///< chunks that the node lacked at `when`
  };

  /// The node that must not evict the last copy of a content.
  struct keeper {
    std::string node;
    std::string before; ///< the keeper before `since`
    timestamp since;
  };

  struct rate {
    double per_second = 0; ///< bytes
    timestamp since;
  };

  /// By node and content.
  template <class T>
  using by_content = std::map<std::pair<std::string, std::string>, T>;

  template <class T>
  void forget_what_came(const std::string& node, by_content<T>& from) const;
  timestamp now() const;
  void measure(const content_report& before, const content_report& after);
  void note(const std::string& content);
  nanoseconds patience_for(const std::string& content) const;
  void plan(const part& what, chain_book& book);
  void share(const part& what, sharing& state) const;
  void say(const std::string& node, const set_sources& message);
  void learn_speeds(const chain_book& book);
  void pin_sources();
  std::vector<content_copies> copies() const;
  std::string best_keeper(const content_copies& copies) const;
  void send_pinned_contents();
  std::optional<chain_book::standing> stands_in(const std::string& node,
                                                const part& what) const;
  const content_state* find(const std::string& node,
                            const std::string& content) const;
  void show(const std::string& node, const std::string& after,
            chain_status& in) const;
  void plan_soon();
  void plan_at(timestamp when);

  chain_controller_actor::stateful_pointer<chain_controller_state> self_ =
    nullptr;
  chain_options options_;
  std::optional<counter> passed_over_;
  std::map<std::string, content_report> hosts_;
  std::map<part, chain_book> books_; ///< wanted parts
  std::map<part, sharing> sharing_;  ///< wanted parts
  by_content<order> said_;
  /// Node and content of each pin_content in force.
  std::set<std::pair<std::string, std::string>> held_;
  std::map<std::string, pinned_contents> last_said_; ///< by node
  std::map<std::string, keeper> keepers_;            ///< by content
  /// By node: chunks a second, as in standing, and when it was measured.
  std::map<std::string, std::pair<double, timestamp>> speeds_;
  bool copies_changed_ = false;
  by_content<rate> rates_;
  std::set<std::string> changed_; ///< contents
  alarm alarm_;
};

} // namespace millrace
