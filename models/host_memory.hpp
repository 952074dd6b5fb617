// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>

#include "models/arriving_file.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

/// Weights that the processes of one user on a host have in memory for each
/// other: what one of them has verified and sealed the others map, so that it
/// is read and verified once, and there is one copy of it, however many use it.
///
/// Each listens on a socket in a folder that only this user can enter, and
/// hands out a file (unix(7), SCM_RIGHTS) for as long as anybody uses it there.
/// When the last process that has it ends, the memory goes with it. As to
/// trust: a process of the same user could as well write into this one.
class host_memory : public std::enable_shared_from_this<host_memory> {
public:
  /// A process that stands still is not waited for longer.
  static constexpr auto patience = 200ms;

  /// Joins those that have named the same folder, which is made if it is not
  /// there. Errors: unavailable, with the system's reason; forbidden when
  /// others than this user could put something there.
  static result<std::shared_ptr<host_memory>> join(const std::string& folder);

  /// Where this user's processes meet that say they are on a host of that
  /// name.
  static std::string folder_of(const std::string& host);

  ~host_memory();

  /// A file that a process of this host has whole; else a new one, as
  /// arriving_file::make's, which the others can have once it is whole. A file
  /// on the disk is read by one of them at a time.
  /// Errors: as make's; conflict while another process reads it: ask again.
  result<std::shared_ptr<arriving_file>>
  open(std::string path, uint64_t bytes, chunk_list chunks,
       file_descriptor from = file_descriptor{});

  host_memory(const host_memory&) = delete;
  host_memory& operator=(const host_memory&) = delete;

private:
  explicit host_memory(std::string folder) : folder_(std::move(folder)) {}

  result<void> listen();
  void serve();
  std::shared_ptr<arriving_file> find_here(const std::string& hash);
  std::shared_ptr<arriving_file> find(const std::string& path,
                                      const std::string& hash,
                                      const chunk_list& chunks, uint64_t bytes);
  void publish(const std::string& hash,
               const std::weak_ptr<arriving_file>& whole);

  std::string folder_;
  file_descriptor listening_;
  std::string name_; ///< of the socket, once it can be asked
  std::pair<file_descriptor, file_descriptor> end_; ///< closed: serve no more
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<arriving_file>> whole_; ///< by hash
  worker_thread thread_{"host-memory"};
};

/// Makes memory that the processes on a host of that name share. Where they
/// cannot, the log says why, and each has its own.
memory_maker memory_shared_on(const std::string& host);

} // namespace millrace
