// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// A journal is a file of records, each checked by itself and chained to the
// one before, so that a flipped bit, a torn write, and a record that is
// missing, doubled or from elsewhere show. Numbers are little-endian.
//
//   offset  bytes
//   0       4      "MRJ1"
//   4       4      n, the length of the content
//   8       16     hash of the record before; zeros in the first
//   24      16     hash of the 24 bytes before this and of the content
//   40      n      content
//
// The hash is BLAKE2b (RFC 7693) with 128 bits. Without a key it finds
// accidents; with a key of up to 64 bytes also records that were forged by
// someone without the key.

using journal_hash = std::array<unsigned char, 16>;

constexpr size_t journal_overhead = 40;

/// The largest content.
constexpr size_t journal_record_max = 1 << 20;

/// Where a journal ends.
struct journal_end {
  size_t bytes = 0;
  uint64_t records = 0;
  journal_hash last{};
};

/// The record that comes next; moves the end behind it. The content may be of
/// journal_record_max at most.
std::string next_record(journal_end& end, std::string_view content,
                        std::string_view key = {});

/// What is wrong with a journal behind its valid prefix.
struct journal_damage {
  size_t from = 0; ///< the first byte that is not of the valid prefix
  size_t to = 0;   ///< where the next whole record begins, or the file ends
  /// Nothing but what a write that power cut off can leave: no whole record is
  /// behind it.
  bool torn = false;
};

/// A journal's longest valid prefix.
struct journal_content {
  std::vector<std::string_view> records; ///< of the text that was read
  journal_end end;
  std::optional<journal_damage> damage;
};

journal_content read_journal(std::string_view file, std::string_view key = {});

} // namespace millrace
