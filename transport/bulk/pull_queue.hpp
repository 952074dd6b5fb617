// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Problem: several sources have parts of one file, at different speeds. Each
/// chunk must be requested from exactly one source at a time, in the order of
/// need, and from another one after a loss.
///
/// Approach: each source may owe a window of chunks. A source with room in its
/// window gets the first wanted chunk that it has. So fast sources carry more
/// of the file, and a source that is still fetching answers when its chunk
/// arrives.
///
/// Callers: bulk_engine, on its thread. Pure: no time, no I/O.
///
/// States of a chunk:
///
///     unwanted ──want──▶ wanted ──next──▶ asked ──answered, have──▶ there
///                           ▲                │
///                           └──lack, remove──┘
///
/// have() leads to "there" from every state.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "models/chunks.hpp"

namespace millrace {

/// Decides which chunks of one file to request from which source.
class pull_queue {
public:
  using source_id = uint64_t;

  explicit pull_queue(size_t chunks) : chunks_(chunks) {}

  /// Adds chunks to fetch, after those added before.
  void want(chunk_range range);

  /// A chunk is present, from any source.
  void have(size_t chunk);

  struct terms {
    size_t window = 4;               ///< chunks requested at a time
    std::vector<chunk_range> only{}; ///< chunks that the source has; empty: all
  };

  /// Adds a source, or changes its terms.
  void add(source_id id, terms how);

  /// Removes a source; its unanswered chunks are requested from others.
  void remove(source_id id);

  /// The source has sent the chunk and has room for another request. Returns
  /// false if the chunk was not requested from the source. The caller verifies
  /// the chunk and calls have(), or lack() to request it again.
  bool answered(source_id id, size_t chunk);
  void lack(size_t chunk);

  struct ask {
    source_id from = 0;
    size_t chunk = 0;
    friend bool operator==(const ask&, const ask&) = default;
  };

  /// The requests to send now; their chunks count as asked.
  std::vector<ask> next();

  /// Whether all wanted chunks are present.
  bool is_done() const { return missing_ == 0; }
  size_t missing() const { return missing_; }
  /// Chunks requested from the source and not answered.
  size_t owed_by(source_id id) const;

private:
  enum class state : uint8_t { unwanted, wanted, asked, there };

  struct chunk_state {
    state is = state::unwanted;
    uint64_t turn = 0; ///< order among wanted chunks
  };

  struct source {
    terms how;
    std::set<size_t> owes;
    uint64_t next_turn = 0; ///< first turn of a wanted chunk that it may have
  };

  std::optional<size_t> take(source& from);
  static bool may_have(const source& from, size_t chunk);

  std::vector<chunk_state> chunks_;
  /// Wanted chunks by turn, without those asked.
  std::map<uint64_t, size_t> wanted_;
  std::map<source_id, source> sources_;
  uint64_t last_turn_ = 0;
  size_t missing_ = 0; ///< wanted or asked
};

} // namespace millrace
