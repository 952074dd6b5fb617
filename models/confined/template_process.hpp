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
  file_descriptor ended;     ///< readable once it has ended: see pidfd_open(2)
  file_descriptor life_line; ///< the process has the other end
};

/// The node's handle of the template of its confined processes: a program that
/// has loaded the backend and forks, so that a new process takes milliseconds
/// instead of the half second of loading LibTorch. Any thread; a call takes as
/// long as a fork or the end of a process.
class template_process {
public:
  /// `with_gpus`: its processes will use GPUs.
  explicit template_process(bool with_gpus = false) : with_gpus_(with_gpus) {}
  /// Starts the template and waits until it can fork. Its environment has the
  /// variables that a backend reads and no others: no keys.
  /// Errors: unavailable, with the template's or the system's reason.
  result<void> start();

  /// The description of the backend that it has loaded.
  std::string backend() const;

  /// Forks a process. A template that has ended is started again. A template
  /// that does not answer for ten seconds is set aside, with its processes
  /// still running, and another is started.
  /// Errors: unavailable.
  result<confined_child> fork();

  /// Kills a process at once, whatever the state of its template, and returns
  /// its status, as in waitpid(2). Nothing when its end takes more than two
  /// seconds, or its template has ended.
  std::optional<int> end(const confined_child& child);

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

/// How a process ended: "SIGSEGV", "exit status 1".
std::string end_text(std::optional<int> status);

} // namespace millrace::confined
