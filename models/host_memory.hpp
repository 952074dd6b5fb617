// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>

#include "models/arriving_file.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

/// Weights in memory that the processes of one user on a host share. A file
/// that one process has verified and sealed is mapped by the others, so that it
/// is read and verified once, and the host holds one copy of it.
///
/// Each process listens on a socket in a folder that only this user can enter,
/// and passes a file (unix(7), SCM_RIGHTS) while it is in use there. The memory
/// is freed when the last process that maps it ends. Trust: a process of the
/// same user could write into this process anyway.
class host_memory : public std::enable_shared_from_this<host_memory> {
public:
  /// Longest wait for a process that does not answer.
  static constexpr auto patience = 200ms;

  /// Joins the processes that use the same folder, which is created if it does
  /// not exist.
  /// Errors: unavailable, with the system's reason; forbidden when another user
  /// could write into the folder.
  static result<std::shared_ptr<host_memory>> join(const std::string& folder);

  /// The folder of this user's processes that are configured with the same host
  /// name.
  static std::string folder_of(const std::string& host);

  ~host_memory();

  /// Maps a file that a process of this host has completely; else creates one,
  /// as arriving_file::make, which is shared once it is complete. A file on the
  /// disk is read by one process at a time.
  /// Errors: as make; conflict while another process reads the file: retry
  /// later.
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
  std::string name_; ///< of the socket, once it accepts connections
  /// Closing .second ends serve().
  std::pair<file_descriptor, file_descriptor> end_;
  std::mutex mutex_;
  /// complete files by hash
  std::map<std::string, std::weak_ptr<arriving_file>> whole_;
  worker_thread thread_{"host-memory"};
};

/// A maker of memory that the processes of one host name share. If sharing
/// fails, the log has the reason, and each process has its own memory.
memory_maker memory_shared_on(const std::string& host);

} // namespace millrace
