// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
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
  file_descriptor ended;     ///< readable once it has: see pidfd_open(2)
  file_descriptor life_line; ///< it has the other end
};

/// A node's hold on the template of its confined processes: a program that has
/// loaded the backend and forks, so that a process costs milliseconds and not
/// the half second that LibTorch takes. For any thread; a call takes as long as
/// a fork or an end does.
class template_process {
public:
  /// `with_gpus`: its processes will use some.
  explicit template_process(bool with_gpus = false) : with_gpus_(with_gpus) {}
  /// Starts it, and waits until it is able. Its environment has what a backend
  /// reads and nothing else: no keys.
  /// Errors: unavailable, with its own or the system's reason.
  result<void> start();

  /// The backend that it has loaded, as that describes itself.
  std::string backend() const;

  /// Forks a process; a template that has ended is started again. One that has
  /// stood still for ten seconds is left as it is, for its processes need it no
  /// more, and another started. Errors: unavailable.
  result<confined_child> fork();

  /// Kills a process, if it lives, at once whatever its template does, and
  /// returns how it ended, as waitpid(2) has it. Nothing when it takes the
  /// kernel more than two seconds, or nobody knows any more.
  std::optional<int> end(const confined_child& x);

private:
  struct one {
    ~one();

    file_descriptor connection;
    pid_t id = -1;
  };

  result<void> start_locked();
  void leave_locked();
  bool ask(const template_order& order, std::span<const int> files,
           template_answer& answer);

  bool with_gpus_;
  mutable std::mutex mutex_;
  std::unique_ptr<one> now_ = std::make_unique<one>();
  std::deque<std::unique_ptr<one>> silent_;
  std::string backend_;
};

/// "SIGSEGV", "exit status 1": how a process ended.
std::string end_text(std::optional<int> status);

} // namespace millrace::confined
