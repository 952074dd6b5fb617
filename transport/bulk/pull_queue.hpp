// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "models/chunks.hpp"

namespace millrace {

/// Which chunks of one file to ask whom for, and when. Whoever is free is asked
/// for the next that is wanted, so several sources share the work as fast as
/// each is, and one that has not got there yet answers when it has.
class pull_queue {
public:
  using source_id = uint64_t;

  explicit pull_queue(size_t chunks) : chunks_(chunks) {}

  /// Wants these after what it wants already.
  void want(chunk_range x);

  /// Has this one, from wherever.
  void have(size_t chunk);

  struct terms {
    size_t window = 4;               ///< chunks it is asked for at a time
    std::vector<chunk_range> only{}; ///< has no others; empty: has all
  };

  /// Asks this source, too; or by other terms from now on.
  void add(source_id x, terms how);

  /// Asks it for nothing more, and others for what it owes.
  void remove(source_id x);

  /// It has answered with this chunk, and may be asked for another. False when
  /// it was not asked for it. Whether it was right is for have() to say; if it
  /// was not, lack() has it asked for again.
  bool answered(source_id x, size_t chunk);
  void lack(size_t chunk);

  struct ask {
    source_id from = 0;
    size_t chunk = 0;
    friend bool operator==(const ask&, const ask&) = default;
  };

  /// Whom to ask for what now; they are held to be asked.
  std::vector<ask> next();

  /// Has all that it wants.
  bool is_done() const { return missing_ == 0; }
  size_t missing() const { return missing_; }
  bool has_source(source_id x) const { return sources_.contains(x); }
  /// Chunks that it owes.
  size_t owed_by(source_id x) const;

private:
  enum class state : uint8_t { unwanted, wanted, asked, there };

  struct chunk_state {
    state is = state::unwanted;
    uint64_t turn = 0; ///< of those that are wanted
  };

  struct source {
    terms how;
    std::set<size_t> owes;
    uint64_t next_turn = 0; ///< what is wanted before that it does not have
  };

  std::optional<size_t> take(source& x);
  static bool may_have(const source& x, size_t chunk);

  std::vector<chunk_state> chunks_;
  std::map<uint64_t, size_t> wanted_; ///< chunks by turn, asked of nobody
  std::map<source_id, source> sources_;
  uint64_t last_turn_ = 0;
  size_t missing_ = 0; ///< wanted or asked
};

} // namespace millrace
