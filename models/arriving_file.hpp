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

/// A file that comes chunk by chunk, in any order and from any thread. A chunk
/// is there once it is what the list says. Who is handed the file, or looks at
/// it, before it is whole waits for what it needs.
class arriving_file {
public:
  /// How the system calls it, in what it says of a process's memory.
  static constexpr auto memory_name = "millrace-weights";

  /// One in memory, without a name. What is there stays as it is: who is handed
  /// the file can only read it, and once it is whole nobody can change it at
  /// all (memfd_create(2), file seals). `path` is how errors name it. Given
  /// what it is to be a copy of, chunks can come from there too; nobody who
  /// changes that afterwards changes this. Errors: unavailable, with the
  /// system's reason.
  static result<std::shared_ptr<arriving_file>>
  make(std::string path, uint64_t bytes, chunk_list chunks,
       file_descriptor from = file_descriptor{});

  /// One on the disk, used where it is mapped, so that all processes of the
  /// host have one copy of it: chunks come by being verified there.
  static std::shared_ptr<arriving_file> over(std::string path, mapped_file x,
                                             chunk_list chunks);

  /// One in memory that somebody has verified whole and sealed: `x` is all of
  /// it, and nobody can change it any more.
  static std::shared_ptr<arriving_file> sealed(std::string path, mapped_file x,
                                               chunk_list chunks);

  /// Where a content without bytes is said to be.
  enum class where : uint8_t { memory, disk };

  /// A content without bytes, in address space that is reserved for it; see
  /// reserved_content.hpp. A chunk is right if it is that part of `content`, by
  /// its address. No chunk is there at first, or all are.
  static std::shared_ptr<arriving_file> reserved(std::string path,
                                                 shared_bytes content,
                                                 chunk_list chunks, where place,
                                                 bool whole);

  /// Takes a chunk, unless it is there or somebody else is bringing it.
  /// Errors: bad_config when it is not the right one: then it is not there, and
  /// may come again; or when this is over a file on the disk; overloaded when
  /// the system has no memory for it or, of the last one, does not seal that.
  result<void> put(size_t chunk, const_bytes content);

  /// Has a chunk of a file on the disk be there, unless it is: by a look at
  /// it, or by reading it into memory.
  /// Errors: bad_config when it is not the right one; unavailable when it
  /// cannot be read; overloaded as put's.
  result<void> verify(size_t chunk);

  /// Whether a chunk that is there is as it was verified: in memory always, on
  /// the disk as long as nothing changes it. Errors: bad_config.
  result<void> look_again(size_t chunk) const;

  /// It is not going to be whole: whoever waits now or later for what is not
  /// there hears why.
  void give_up(error why);

  /// Keeps something for as long as it is being read: until it is whole or
  /// given up, or whoever reads it needs no more of it now.
  void keep_while_read(std::shared_ptr<const void> x);
  void rest();

  using arrived = std::function<void(const result<void>&)>;

  /// Calls back once these chunks are there, or will not be: at once, or on
  /// the thread that brings the last of them.
  void when(chunk_range x, arrived then);

  /// The same, and waits for it. For threads that have nothing else to do.
  result<void> wait(chunk_range x);

  /// Whether it is in memory, and not where it lies on a disk.
  bool is_in_memory() const { return in_memory_; }

  /// Whether somebody has given it up.
  bool is_given_up() const;

  bool has(size_t chunk) const;
  bool has(chunk_range x) const;
  size_t chunks() const { return chunks_.size(); }
  /// Of each chunk but the last.
  uint64_t bytes_of_chunk() const { return chunks_.bytes_of_chunk(); }
  size_t chunks_there() const;
  uint64_t bytes() const { return content_.size(); }

  /// All of it; see above.
  const shared_bytes& content() const { return content_; }
  /// What it is mapped from, to be handed to other processes, which can read
  /// it.
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

  arriving_file(std::string path, chunk_list chunks, mapped_file x);

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
  bool is_reserved_ = false; ///< has no bytes
  file_descriptor written_;  ///< the same, to be written; none once whole
  file_descriptor from_;     ///< what it is a copy of, if it is
  mutable std::mutex mutex_;
  std::vector<state> states_;    ///< guarded, as all that follows
  size_t there_ = 0;             ///< chunks
  std::vector<waiting> waiting_; ///< for some that are not there
  std::optional<error> given_up_;
  std::shared_ptr<const void> kept_; ///< see keep_while_read
};

/// Makes memory for a file, as arriving_file::make; or has it already.
using memory_maker = std::function<result<std::shared_ptr<arriving_file>>(
  std::string path, uint64_t bytes, chunk_list chunks, file_descriptor from)>;

} // namespace millrace
