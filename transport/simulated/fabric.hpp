// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "runtime/time.hpp"

namespace millrace {

using link_number = uint32_t;
using flow_number = uint64_t;

/// Links that flows share max-min fairly (progressive filling; Bertsekas and
/// Gallager, Data Networks, section 6.5.2): no flow could be faster but at the
/// cost of one that is no faster than it. What changes is worked out anew for
/// the flows and links that hang together with the change, and only for those.
/// A fluid model: packets, their loss and TCP's slow start are not in it.
/// Pure: time is a parameter and may not go back.
class fabric {
public:
  /// A link that carries one direction.
  link_number add_link(double bytes_per_second);

  /// What the link carries from now on; 0 stops what crosses it.
  void set_capacity(link_number x, double bytes_per_second, timestamp now);
  double capacity(link_number x) const { return links_[x].capacity; }

  /// Bytes that the link could have carried until now.
  double room(link_number x, timestamp now) const {
    auto& y = links_[x];
    return y.room + y.capacity * to_seconds(now - y.since);
  }

  /// Begins to send over all links of a path; without links it takes no time.
  flow_number start(std::span<const link_number> path, double bytes,
                    timestamp now);

  /// A flow that has ended goes on with more bytes over the same path; nobody
  /// else's share changes. Only between take_ended and the next call.
  void go_on(flow_number x, double bytes, timestamp now);

  /// Ends a flow that has ended or is given up; the others get what it had.
  /// Returns the bytes that were left of it.
  double stop(flow_number x, timestamp now);

  /// When the next flow ends.
  timestamp next_due() const;

  /// The flows that have ended by then, in order of their numbers. Each keeps
  /// its share until it goes on or is stopped.
  std::vector<flow_number> take_ended(timestamp now);

  /// In bytes per second.
  double rate(flow_number x) const { return flows_.at(x).rate; }

private:
  struct link {
    double capacity = 0;
    std::vector<flow_number> flows;
    double room = 0; ///< bytes that it could have carried until `since`
    timestamp since; ///< of this capacity
    // While shares are worked out:
    double left = 0;
    size_t waiting = 0;
    bool visited = false;
  };
  struct flow {
    std::vector<link_number> path;
    double left = 0; ///< bytes, as of `since`
    timestamp since;
    double rate = 0;
    timestamp due = far_future;
    bool settled = false; ///< while shares are worked out
    bool visited = false;
  };
  struct ending {
    timestamp when;
    flow_number which;
    auto operator<=>(const ending&) const = default;
  };

  void collect(std::span<const link_number> from);
  void share(std::span<const link_number> around, timestamp now);
  void set_rate(flow_number n, flow& x, double rate, timestamp now);
  void schedule(flow_number n, flow& x);

  std::vector<link> links_;
  std::unordered_map<flow_number, flow> flows_;
  std::set<ending> endings_;
  flow_number last_ = 0;
  // What hangs together with a change.
  std::vector<link_number> some_links_;
  std::vector<flow_number> some_flows_;
};

} // namespace millrace
