// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/fields.hpp"
#include "runtime/hash.hpp"

namespace millrace {

/// Bytes of a chunk, the unit in which files of a bundle are verified and sent.
/// The last chunk of a file may be shorter. Contents without bytes, which only
/// the simulator has, may have chunks of another size.
inline constexpr uint64_t chunk_bytes = uint64_t{1} << 20;

/// The chunk list of FILE lies beside it in FILE.chunks.
inline constexpr auto chunk_list_suffix = ".chunks";

/// How many chunks a file has.
constexpr uint64_t chunks_in(uint64_t bytes, uint64_t chunk = chunk_bytes) {
  return bytes / chunk + (bytes % chunk != 0);
}

/// Chunks [first, last) of a file.
struct chunk_range {
  uint64_t first = 0;
  uint64_t last = 0;
  MILLRACE_FIELDS(chunk_range, first, last)
  uint64_t size() const { return last - first; }
  friend auto operator<=>(const chunk_range&, const chunk_range&) = default;
};

/// The chunks that hold bytes [begin, end); none for an empty range.
constexpr chunk_range chunks_over(uint64_t begin, uint64_t end,
                                  uint64_t chunk = chunk_bytes) {
  return begin >= end ? chunk_range{}
                      : chunk_range{begin / chunk, chunks_in(end, chunk)};
}

/// The SHA-256 of each chunk of a file, in order, so that a part of the file
/// can be verified without the rest. The hash of the whole file is the SHA-256
/// of this list as text, one line of hexadecimal digits per chunk:
///
///     split -b 1M --filter=sha256sum FILE | cut -c-64 | sha256sum
///
/// For a file of at most one chunk it is the file's own SHA-256.
class chunk_list {
public:
  chunk_list() = default;

  static chunk_list of(const_bytes file);

  /// The list of a content without bytes (see reserved_content.hpp): the hash
  /// of each chunk is the SHA-256 of the content's name, the chunk's number and
  /// its length.
  static chunk_list of_identity(const std::string& content, uint64_t bytes,
                                uint64_t chunk);

  /// Parses a chunk list from its text.
  /// Errors: bad_config when the list does not match `hash`, the hash of the
  /// file, or does not fit a file of `bytes` bytes.
  static result<chunk_list> read(std::string_view text, uint64_t bytes,
                                 const std::string& hash,
                                 uint64_t chunk = chunk_bytes);

  /// The list of a file with at most one chunk, which needs no text.
  /// Errors: bad_config for an invalid hash.
  static result<chunk_list> of_short_file(uint64_t bytes,
                                          const std::string& hash,
                                          uint64_t chunk = chunk_bytes);

  std::string text() const;
  /// Bytes of the text of the list of a file with `bytes` bytes.
  static uint64_t text_bytes(uint64_t bytes, uint64_t chunk = chunk_bytes) {
    return chunks_in(bytes, chunk) * (2 * sizeof(sha256_digest) + 1);
  }
  std::string file_hash() const;

  size_t size() const { return hashes_.size(); }
  /// Bytes of each chunk but the last.
  uint64_t bytes_of_chunk() const { return chunk_; }

  /// Whether `content` has the hash of this chunk.
  bool matches(size_t chunk, const_bytes content) const {
    return sha256(content) == hashes_.at(chunk);
  }
  const sha256_digest& hash_of(size_t chunk) const { return hashes_.at(chunk); }

private:
  std::vector<sha256_digest> hashes_;
  uint64_t chunk_ = chunk_bytes;
};

} // namespace millrace
