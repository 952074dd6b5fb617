// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Chains of one content. Problem: many hosts want a content that few hosts
/// have complete. Approach: receivers stand in chains. The first of a chain
/// fetches from complete hosts (sources), each other from the host before it,
/// chunk by chunk. So each host sends the content once, and the last has it
/// shortly after the first (Flashpoint, section 6.2; FP-44 to FP-46). Beyond
/// the thesis:
/// - receivers are spread evenly over the chains (FP-43), by rack;
/// - hosts that have left are removed (FP-48);
/// - a host that delays others goes to the end of its chain: it received
///   nothing although it could (is_stalled), or less than half as fast as the
///   host before it, or as hosts behind it have been (is_slow).
/// The chain controller calls report and lose, then plan, and sends the orders
/// to the relays.
///
/// States of a host:
///   idle      neither wants nor complete; may serve a chain without a source
///   receiver  wants, and is in one chain. Complete, or wants no longer -> out;
///             the hosts behind a complete one become its own chain
///   source    complete and gives; first source of one chain at most

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/chain.hpp"

namespace millrace {

/// Plans the chains of one content. Pure: time is a parameter.
class chain_book {
public:
  /// State of a host with respect to the content.
  struct standing {
    std::string rack;
    uint64_t missing = 0; ///< chunks that the host lacks
    bool wants = false;   ///< the host fetches the content
    bool gives = false;   ///< other hosts can fetch from the host
    double speed = 0;     ///< chunks a second so far; 0: not known
    bool remote = false;  ///< an object store: its answers are slow
    friend bool operator==(const standing&, const standing&) = default;
  };

  explicit chain_book(nanoseconds patience,
                      bulk_topology topology = bulk_topology::chain)
    : patience_(patience),
      topology_(topology) {}

  void report(const std::string& node, const standing& progress, timestamp now);
  void lose(const std::string& node);

  /// The sources of each receiver; empty: it waits for a source.
  using orders = std::map<std::string, std::vector<std::string>>;
  orders plan(timestamp now);

  /// When a host may have been stalled or slow for too long.
  timestamp next_due() const;

  /// All hosts that have reported.
  std::vector<std::string> hosts() const;

  /// A chain: its sources, and its receivers in order.
  struct chain {
    std::vector<std::string> sources;
    std::vector<std::string> members;
    friend bool operator==(const chain&, const chain&) = default;
  };
  const std::vector<chain>& chains() const { return chains_; }

  /// How often a host was moved to the end of its chain.
  uint64_t passed_over() const { return passed_over_; }

  /// Chunks a second that a host received at its present place, over the last
  /// interval of `patience`; none: no interval has passed there.
  std::optional<double> rate_of(const std::string& node) const;

private:
  struct host {
    standing is;
    timestamp moved;  ///< when it last received a chunk or changed its place
    timestamp since;  ///< start of the interval of its rate
    uint64_t had = 0; ///< missing chunks at `since`
    std::optional<double> rate{};
    bool passed_over = false; ///< was moved once for being slow

    void place(timestamp now);
  };

  std::vector<std::string> givers() const;
  std::vector<std::string> complete_stores() const;
  bool is_in_chain(const std::string& node) const;
  void drop_those_done();
  void find_sources();
  void join(const chain& from, chain& to);
  void add_those_new(timestamp now);
  void measure(timestamp now);
  bool is_stalled(const chain& line, size_t i, timestamp now,
                  nanoseconds patience) const;
  bool is_slow(const chain& line, size_t i) const;
  std::optional<size_t> obstacle_in(const chain& line, timestamp now) const;
  void pass_over_slow_ones(timestamp now);

  nanoseconds patience() const;

  nanoseconds patience_;
  nanoseconds pace_{0}; ///< recent time per chunk
  int slack_ = 1; ///< factor of patience; doubles until a chunk has arrived
  bulk_topology topology_;
  std::map<std::string, host> hosts_;
  std::vector<chain> chains_;
  uint64_t passed_over_ = 0;
};

} // namespace millrace
