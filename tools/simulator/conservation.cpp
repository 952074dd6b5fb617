// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "actors/messages/contents.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "simulator/invariants.hpp"
#include "simulator/log_line.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

/// I33: Compares the bytes of links and the times of starts with the
/// capacities. Counts whole messages, and the times of decisions and of ready
/// replicas, independently of the simulated network's arithmetic.
class conservation : public invariant {
public:
  explicit conservation(const loaded_scenario& what)
    : invariant("I33"),
      what_(what) {}

  void on_log(log_level, std::string_view line, timestamp when) override {
    auto field = [&](std::string_view key) {
      return std::string{field_of(line, key)};
    };
    if (line.starts_with("placement.deploy"))
      on_decision(field("replica"), field("node"), when);
    else if (line.starts_with("replica.ready"))
      on_ready(field("replica"), where_found(field("from")),
               number_in<uint64_t>(field("bytes")).value_or(0), when);
  }

  void at_end(simulation& run) override {
    constexpr double rounding = 1e-6;
    for (auto& link : run.all_links())
      if (link.shared_bytes > link.room * (1 + rounding) + 1)
        broken(run.inside().world().now(), "link " + link.name + " carried "
                                             + format_number(link.shared_bytes)
                                             + " bytes, of at most "
                                             + format_number(link.room));
  }

private:
  struct start {
    std::string node;
    timestamp decided;
  };

  void on_decision(const std::string& replica, const std::string& node,
                   timestamp when) {
    auto end = replica.rfind('.'); // MODEL.VERSION.NUMBER
    // Later starts may use bytes that an earlier start fetched.
    if (known_.insert({node, replica.substr(0, end)}).second)
      starts_[replica] = {node, when};
  }

  void on_ready(const std::string& replica, found_in source, uint64_t bytes,
                timestamp when) {
    auto i = starts_.find(replica);
    if (i == starts_.end())
      return;
    auto took = to_us(when - i->second.decided);
    auto least = least_time(i->second.node, source, bytes);
    if (took < least)
      broken(when, i->second.node + " has " + replica + " "
                     + format_duration(took)
                     + " after the decision; its bytes alone take "
                     + format_duration(least));
    starts_.erase(i);
  }

  /// In bytes per second; infinite for an unlimited link.
  static double speed_of(const link_speed& x) {
    auto speed = x.speed.bytes_per_second;
    return speed > 0 ? speed : std::numeric_limits<double>::infinity();
  }

  /// The link of a host, which may have a speed of its own.
  const link_speed& link_of(const std::string& node) const {
    auto& net = what_.spec.network;
    auto i = net.links.find(node);
    return i == net.links.end() ? net.host : i->second;
  }

  /// The least time to fetch the bytes from the source without other traffic; 0
  /// if the host has the bytes.
  microseconds least_time(const std::string& node, found_in source,
                          uint64_t bytes) const {
    if (source != found_in::stores && source != found_in::hosts)
      return microseconds{0};
    auto speed = speed_of(link_of(node));
    auto& store = what_.spec.network.store;
    if (source == found_in::stores)
      speed =
        std::min({speed, speed_of(store), speed_of({store.per_host, 0us})});
    return microseconds{
      static_cast<int64_t>(1e6 * static_cast<double>(bytes) / speed)};
  }

  const loaded_scenario& what_;
  /// node, and model with version
  std::set<std::pair<std::string, std::string>> known_;
  std::map<std::string, start> starts_; ///< by replica
};

} // namespace

std::unique_ptr<invariant> make_conservation(const loaded_scenario& what) {
  return std::make_unique<conservation>(what);
}

} // namespace millrace::simulator
