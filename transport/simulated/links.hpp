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

/// Which nodes of the simulated world are linked: what peer tables, hellos and
/// beats make of starts, ends, silence and cuts, without a message per beat. A
/// killed process is noticed when its connections break, one that hangs or is
/// cut off by its silence; who gives a link up ends it for the other side as
/// soon as it can be told; a link comes back when both sides can hear each
/// other, and nothing said on the old one counts on the new one.
class simulated_links {
public:
  simulated_links(simulated_network& net, link_settings settings,
                  random_stream random);

  using refusal = std::function<void(const hello_rejected&)>;

  /// A node that has started looks for the others. With a start of its name
  /// known that is not earlier it is told so, and nobody listens to it.
  void join(simulated_bus& x, refusal on_hello_rejected);

  /// It says goodbye and goes.
  void leave(simulated_bus& x);

  /// Its process was killed.
  void vanish(simulated_bus& x);

  /// Its process was paused, or runs again.
  void silence(simulated_bus& x);
  void wake(simulated_bus& x);

  /// Nothing gets from one host to another, or does again.
  void cut(host_number from, host_number to);
  void mend(host_number from, host_number to);

  /// The node of that name that is part of the cluster now, or null.
  simulated_bus* find(const std::string& node) const;

  simulated_network& network() { return net_; }
  virtual_world& world() { return net_.world(); }

  /// Gives the world a bug.
  void plant(planted_bug x);
  planted_bug bug() const { return bug_; }
  /// Whether that bug shows now; it does so now and then.
  bool shows(planted_bug x);

private:
  friend class simulated_bus;

  struct start {
    member info;
    host_number host = 0;
    simulated_bus* bus = nullptr; ///< null when it has gone
    bool joined = false;
    bool silent = false;
    uint64_t silences = 0;
    std::set<size_t> missed_by; ///< gone, but these do not know yet
  };

  using pair = std::pair<size_t, size_t>; ///< who sees, and whom

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
  std::vector<size_t> present_;           ///< that have joined and not gone
  string_map<size_t> by_name_;            ///< last start of each
  std::map<std::string, uint64_t> known_; ///< highest incarnation of each name
  std::set<pair> unlinked_; ///< of those present; all others see each other
  std::map<std::pair<host_number, host_number>, uint64_t> cuts_;
  uint64_t last_cut_ = 0;
  lost_nodes lost_;
  lost_nodes left_; ///< in good order
  planted_bug bug_ = planted_bug::none;
};

} // namespace millrace
