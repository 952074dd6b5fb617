// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "models/chunks.hpp"
#include "runtime/bytes.hpp"

namespace millrace {

/// A file with chunks that arrive in any order, from any thread. A chunk is
/// present once its SHA-256 matches the chunk list. Readers can have the file
/// before it is complete, and wait for the chunks that they need.
class arriving_file {
public:
  /// Name of the memory in /proc/PID/maps.
  static constexpr auto memory_name = "millrace-weights";

  /// A file in memory without a path (memfd_create(2)). Present bytes never
  /// change: receivers of the descriptor can only read it, and file seals
  /// forbid every write once the file is complete. `path` is the name in
  /// errors. If `from` is set, chunks can also be copied from that file; later
  /// changes of `from` have no effect on this file.
  /// Errors: unavailable, with the system's reason.
  static result<std::shared_ptr<arriving_file>>
  make(std::string path, uint64_t bytes, chunk_list chunks,
       file_descriptor from = file_descriptor{});

  /// A file on the disk, used where it is mapped, so that all processes of the
  /// host share one copy. Its chunks become present through verify().
  static std::shared_ptr<arriving_file> over(std::string path, mapped_file file,
                                             chunk_list chunks);

  /// A file in memory that another process has verified and sealed: `file` maps
  /// all its bytes, and no process can change them.
  static std::shared_ptr<arriving_file>
  sealed(std::string path, mapped_file file, chunk_list chunks);

  /// Where a content without bytes pretends to lie.
  enum class where : uint8_t { memory, disk };

  /// A content without bytes, in reserved address space; see
  /// reserved_content.hpp. A chunk is valid if its address is that part of
  /// `content`. Initially all chunks are present (`whole`), or none.
  static std::shared_ptr<arriving_file> reserved(std::string path,
                                                 shared_bytes content,
                                                 chunk_list chunks, where place,
                                                 bool whole);

  /// Stores a chunk, unless it is present or another thread brings it. Errors:
  /// - bad_config when the chunk fails verification (it stays absent and may be
  ///   put again), or when this file lies on the disk;
  /// - overloaded when the system has no memory for the chunk, or refuses to
  ///   seal the file after the last chunk.
  result<void> put(size_t chunk, const_bytes content);

  /// Makes a chunk of a file on the disk present, unless it is: verifies it in
  /// place, or reads it into memory.
  /// Errors: bad_config when verification fails; unavailable when the chunk
  /// cannot be read; overloaded as in put.
  result<void> verify(size_t chunk);

  /// Whether a present chunk still matches its hash: always in memory; on the
  /// disk until another program changes the file.
  /// Errors: bad_config.
  result<void> look_again(size_t chunk) const;

  /// The file will not become complete: present and later waits for absent
  /// chunks fail with `why`.
  void give_up(error why);

  /// Keeps an object alive while the file is read: until the file is complete
  /// or given up, or the reader calls rest().
  void keep_while_read(std::shared_ptr<const void> owner);
  void rest();

  using arrived = std::function<void(const result<void>&)>;

  /// Calls `then` once these chunks are present, or never will be: at once, or
  /// on the thread that brings the last one.
  void when(chunk_range wanted, arrived then);

  /// As when(), but blocks. For threads without other work.
  result<void> wait(chunk_range wanted);

  /// Whether the bytes lie in memory, not in a mapped file of the disk.
  bool is_in_memory() const { return in_memory_; }

  /// Whether give_up() was called.
  bool is_given_up() const;

  bool has(size_t chunk) const;
  bool has(chunk_range wanted) const;
  size_t chunks() const { return chunks_.size(); }
  /// Bytes of each chunk but the last.
  uint64_t bytes_of_chunk() const { return chunks_.bytes_of_chunk(); }
  size_t chunks_there() const;
  uint64_t bytes() const { return content_.size(); }

  /// All bytes of the file; absent chunks are undefined.
  const shared_bytes& content() const { return content_; }
  /// The mapped file, read-only; may be passed to other processes.
  const file_descriptor& file() const { return file_; }
  const std::string& path() const { return path_; }
  const chunk_list& list() const { return chunks_; }

  arriving_file(const arriving_file&) = delete;
  arriving_file& operator=(const arriving_file&) = delete;

private:
  enum class state : uint8_t { absent, coming, there };

  struct waiting {
    chunk_range what;
    size_t missing;
    arrived then;
  };

  arriving_file(std::string path, chunk_list chunks, mapped_file file);

  size_t bytes_of(size_t chunk) const;
  bool claim(size_t chunk);
  const_bytes mapped(size_t chunk) const;
  error wrong(size_t chunk, const_bytes content) const;
  result<const_bytes> find(size_t chunk) const;
  result<void> take(size_t chunk, const_bytes content);
  void miss(size_t chunk);
  result<void> settle(size_t chunk);
  result<void> seal();

  std::string path_;
  chunk_list chunks_;
  file_descriptor file_;
  shared_bytes content_;
  bool in_memory_ = false;
  bool is_reserved_ = false; ///< a content without bytes
  file_descriptor written_;  ///< for writing, in memory; none once complete
  file_descriptor from_;     ///< chunks can be copied from it, if it is set
  mutable std::mutex mutex_;
  std::vector<state> states_;    ///< guarded, as all fields below
  size_t there_ = 0;             ///< chunks
  std::vector<waiting> waiting_; ///< for absent chunks
  std::optional<error> given_up_;
  std::shared_ptr<const void> kept_; ///< see keep_while_read
};

/// Creates a file in memory, as arriving_file::make, or finds an existing one.
using memory_maker = std::function<result<std::shared_ptr<arriving_file>>(
  std::string path, uint64_t bytes, chunk_list chunks, file_descriptor from)>;

} // namespace millrace
