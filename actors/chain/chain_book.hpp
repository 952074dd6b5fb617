// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/time.hpp"
#include "transport/messages/chain.hpp"

namespace millrace {

/// Who relays one content to whom. Hosts that want it stand in chains: the
/// first of each gets it from hosts that have all of it, every other from the
/// one before it, which passes on what has come of it so far. So each host
/// sends it once, and the last has it little later than the first (Flashpoint,
/// section 6.2; FP-44 to FP-46). What the thesis leaves open is decided here:
/// receivers are spread evenly (FP-43), those of one rack follow each other,
/// who is gone is left out (FP-48), and who holds up others goes to the end:
/// one that gets nothing although it could, or that gets it less than half as
/// fast as the one before it, which has more, or as those behind it have been
/// seen to. (So one that is slow, and first, is not found before others have
/// been seen to be faster.)
class chain_book {
public:
  /// How a host stands to the content.
  struct standing {
    std::string rack;
    uint64_t missing = 0; ///< chunks it does not have, of all
    bool wants = false;   ///< it is getting it
    bool gives = false;   ///< others can get from it what it has
    double speed = 0; ///< chunks a second that it has got before; 0: not known
    bool remote = false; ///< it is an object store, whose answers take time
    friend bool operator==(const standing&, const standing&) = default;
  };

  explicit chain_book(nanoseconds patience,
                      bulk_topology topology = bulk_topology::chain)
    : patience_(patience),
      topology_(topology) {}

  void report(const std::string& node, const standing& x, timestamp now);
  void lose(const std::string& node);

  /// Whom each host that wants it gets it from: none where there is nobody.
  using orders = std::map<std::string, std::vector<std::string>>;
  orders plan(timestamp now);

  /// When somebody may have been too slow for too long.
  timestamp next_due() const;

  /// Those that it knows of.
  std::vector<std::string> hosts() const;

  /// Each chain's hosts, those it comes from first.
  struct chain {
    std::vector<std::string> sources;
    std::vector<std::string> members;
    friend bool operator==(const chain&, const chain&) = default;
  };
  const std::vector<chain>& chains() const { return chains_; }

  /// How often a host was put behind the others of its chain so far, for it got
  /// nothing, or too little.
  uint64_t passed_over() const { return passed_over_; }

  /// How fast a host gets it, in chunks a second: while it stands where it
  /// does, over the last time that patience is; none: that has not passed.
  std::optional<double> rate_of(const std::string& node) const;

private:
  struct host {
    standing is;
    timestamp moved; ///< when it last got something, or was put where it is
    // Of the time over which its rate is taken.
    timestamp since;
    uint64_t had = 0; ///< chunks that were missing then
    std::optional<double> rate{};
    bool passed_over = false; ///< for being slow: once

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
  bool is_stalled(const chain& x, size_t i, timestamp now,
                  nanoseconds patience) const;
  bool is_slow(const chain& x, size_t i) const;
  std::optional<size_t> obstacle_in(const chain& x, timestamp now) const;
  void pass_over_slow_ones(timestamp now);

  nanoseconds patience() const;

  nanoseconds patience_;
  nanoseconds pace_{0}; ///< what a chunk has taken lately
  int slack_ = 1;       ///< times that, for nothing has come since
  bulk_topology topology_;
  std::map<std::string, host> hosts_;
  std::vector<chain> chains_;
  uint64_t passed_over_ = 0;
};

} // namespace millrace
