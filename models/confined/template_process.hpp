// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <sys/types.h>

#include "models/confined/orders.hpp"
#include "runtime/records.hpp"

namespace millrace::confined {

/// A process that a template has forked.
struct confined_child {
  pid_t id = 0;
  file_descriptor ended; ///< readable once it has: see pidfd_open(2)
};

/// A node's hold on the template of its confined processes: a program that has
/// loaded the backend and forks, so that a process costs milliseconds and not
/// the half second that LibTorch takes. For any thread; a call takes as long as
/// a fork or an end does.
class template_process {
public:
  /// `with_gpus`: its processes will use some.
  explicit template_process(bool with_gpus = false) : with_gpus_(with_gpus) {}
  ~template_process();

  /// Starts it, and waits until it is able. Its environment has what a backend
  /// reads and nothing else: no keys.
  /// Errors: unavailable, with its own or the system's reason.
  result<void> start();

  /// The backend that it has loaded, as that describes itself.
  std::string backend() const;

  /// Forks a process that holds the other end of this life line; one template
  /// that has ended is started again. Errors: unavailable.
  result<confined_child> fork(const file_descriptor& life_line);

  /// Kills a process, if it lives, at once whatever its template does, and
  /// returns how it ended, as waitpid(2) has it. Nothing when it takes the
  /// kernel more than two seconds, or nobody knows any more.
  std::optional<int> end(const confined_child& x);

private:
  result<void> start_locked();
  void stop_locked();
  bool ask(const template_order& order, std::span<const int> files,
           template_answer& answer);

  bool with_gpus_;
  mutable std::mutex mutex_;
  file_descriptor connection_;
  std::string backend_;
  pid_t id_ = -1;
};

/// "SIGSEGV", "exit status 1": how a process ended.
std::string end_text(std::optional<int> status);

} // namespace millrace::confined
