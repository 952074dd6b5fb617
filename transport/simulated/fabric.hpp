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

/// Shares links between flows, max-min fairly (progressive filling; Bertsekas
/// and Gallager, Data Networks, section 6.5.2): no flow could be faster except
/// at the cost of a flow that is not faster. A change recomputes only the flows
/// and links that are connected with it. A fluid model: it has no packets,
/// packet loss or TCP slow start. Pure: time is a parameter and must not go
/// back.
class fabric {
public:
  /// A link that carries one direction.
  link_number add_link(double bytes_per_second);

  /// Changes the capacity of a link; 0 stops its flows.
  void set_capacity(link_number link, double bytes_per_second, timestamp now);
  double capacity(link_number link) const { return links_[link].capacity; }

  /// Bytes that the link could have carried until now.
  double room(link_number link, timestamp now) const {
    auto& y = links_[link];
    return y.room + y.capacity * to_seconds(now - y.since);
  }

  /// Starts a flow over all links of a path; without links it takes no time.
  flow_number start(std::span<const link_number> path, double bytes,
                    timestamp now);

  /// Continues an ended flow with more bytes over the same path; the shares of
  /// other flows do not change. Only between take_ended and the next call.
  void go_on(flow_number flow, double bytes, timestamp now);

  /// Removes a flow, ended or not; the others get its share. Returns the bytes
  /// that were left.
  double stop(flow_number flow, timestamp now);

  /// When the next flow ends.
  timestamp next_due() const;

  /// The flows that have ended by `now`, in order of their numbers. Each keeps
  /// its share until go_on or stop.
  std::vector<flow_number> take_ended(timestamp now);

  /// Bytes per second.
  double rate(flow_number flow) const { return flows_.at(flow).rate; }

private:
  struct link {
    double capacity = 0;
    std::vector<flow_number> flows;
    double room = 0; ///< bytes that it could have carried until `since`
    timestamp since; ///< start of this capacity
    // While shares are computed:
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
    bool settled = false; ///< while shares are computed
    bool visited = false;
  };
  struct ending {
    timestamp when;
    flow_number which;
    auto operator<=>(const ending&) const = default;
  };

  void collect(std::span<const link_number> from);
  void share(std::span<const link_number> around, timestamp now);
  void set_rate(flow_number n, flow& changed, double rate, timestamp now);
  void schedule(flow_number n, flow& changed);

  std::vector<link> links_;
  std::unordered_map<flow_number, flow> flows_;
  std::set<ending> endings_;
  flow_number last_ = 0;
  // Links and flows connected with a change.
  std::vector<link_number> some_links_;
  std::vector<flow_number> some_flows_;
};

} // namespace millrace
