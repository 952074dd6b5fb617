// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// A journal is a file of records. Each record has a checksum and the hash of
// the record before. Flipped bits, torn writes, and missing, repeated or
// foreign records are therefore detected. Numbers are little-endian.
//
//   offset  bytes
//   0       4      "MRJ1"
//   4       4      n, the length of the content
//   8       16     hash of the record before; zeros in the first
//   24      16     hash of the 24 bytes before this and of the content
//   40      n      content
//
// The hash is BLAKE2b (RFC 7693) with 128 bits. Without a key the hash detects
// accidental damage. With a key of up to 64 bytes it also detects records
// forged without the key.

using journal_hash = std::array<unsigned char, 16>;

constexpr size_t journal_overhead = 40;

/// Limit of a record's content, in bytes.
constexpr size_t journal_record_max = 1 << 20;

/// The end of a journal.
struct journal_end {
  size_t bytes = 0;
  uint64_t records = 0;
  journal_hash last{};
};

/// Encodes the next record and advances `end`. The content must not exceed
/// journal_record_max.
std::string next_record(journal_end& end, std::string_view content,
                        std::string_view key = {});

/// Damage behind the valid prefix of a journal.
struct journal_damage {
  size_t from = 0; ///< first byte after the valid prefix
  size_t to = 0;   ///< start of the next whole record, or the end of the file
  /// The damage can be a write that power loss cut off: no whole record
  /// follows.
  bool torn = false;
};

/// The longest valid prefix of a journal.
struct journal_content {
  std::vector<std::string_view> records; ///< views into the file's text
  journal_end end;
  std::optional<journal_damage> damage;
};

journal_content read_journal(std::string_view file, std::string_view key = {});

} // namespace millrace
