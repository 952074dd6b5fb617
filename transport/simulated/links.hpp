// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <set>

#include "runtime/string_map.hpp"
#include "transport/lost_nodes.hpp"
#include "transport/peers.hpp"
#include "transport/simulated/bus.hpp"

namespace millrace {

/// Which nodes of the simulated world are linked. Models the results of peer
/// tables, hellos and heartbeats after starts, ends, silence and cuts, without
/// a message per heartbeat. A killed process is detected by its broken
/// connections, a process that hangs or is cut off by its silence. A side that
/// gives a link up ends it for the other side as soon as a message can get
/// through. A link returns when both sides can reach each other, and messages
/// of the old link are void.
class simulated_links {
public:
  simulated_links(simulated_network& net, link_settings settings,
                  random_stream random);

  using refusal = std::function<void(const hello_rejected&)>;

  /// A started node contacts the others. If a start of the same or a later
  /// incarnation is known, the node is rejected and ignored.
  void join(simulated_bus& bus, refusal on_hello_rejected);

  /// The node sends goodbye and leaves.
  void leave(simulated_bus& bus);

  /// The node's process was killed.
  void vanish(simulated_bus& bus);

  /// The node's process was paused (silence), or runs again (wake).
  void silence(simulated_bus& bus);
  void wake(simulated_bus& bus);

  /// Blocks messages from one host to another (cut), or permits them again
  /// (mend).
  void cut(host_number from, host_number to);
  void mend(host_number from, host_number to);

  /// The current member with that name, or null.
  simulated_bus* find(const std::string& node) const;

  simulated_network& network() { return net_; }
  virtual_world& world() { return net_.world(); }

  /// Plants a bug.
  void plant(planted_bug bug);
  planted_bug bug() const { return bug_; }
  /// Whether the planted bug acts this time; it does so at random.
  bool shows(planted_bug bug);

private:
  friend class simulated_bus;

  struct start {
    member info;
    host_number host = 0;
    simulated_bus* bus = nullptr; ///< null after the end of the start
    bool joined = false;
    bool silent = false;
    uint64_t silences = 0;
    std::set<size_t> missed_by; ///< ended, but not yet detected by these
  };

  /// The observing start, and the observed one.
  using pair = std::pair<size_t, size_t>;

  bool sees(size_t who, size_t whom) const;
  void meet(size_t n);
  void link(size_t a, size_t b);
  void lose(size_t who, size_t whom, const std::string& reason,
            bool left = false);
  void give_up(size_t who, size_t whom, const std::string& reason);
  void try_again(size_t a, size_t b);
  void remove(size_t n);
  bool reachable(size_t from, size_t to) const;
  microseconds patience();
  microseconds latency(size_t from, size_t to) const;
  template <class F>
  void for_others(size_t n, F f);
  void later(microseconds delay, std::function<void()> f);

  simulated_network& net_;
  link_settings settings_;
  random_stream random_;
  std::vector<start> starts_;
  std::vector<size_t> present_;           ///< joined and not ended
  string_map<size_t> by_name_;            ///< latest start of each
  std::map<std::string, uint64_t> known_; ///< highest incarnation of each name
  std::set<pair> unlinked_; ///< pairs of present starts; all others are linked
  std::map<std::pair<host_number, host_number>, uint64_t> cuts_;
  uint64_t last_cut_ = 0;
  lost_nodes lost_;
  lost_nodes left_; ///< in good order
  planted_bug bug_ = planted_bug::none;
};

} // namespace millrace
