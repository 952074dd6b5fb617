// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/actor.hpp"

namespace millrace {

/// Runs actors on the thread that polls the sockets. This thread handles each
/// received message, and the messages that its handlers send, until an actor
/// must wait. The request path therefore wakes only the threads that its work
/// needs. CAF runs each actor on one thread at a time, so actors here and
/// actors on CAF's workers (timers, other threads) can send to each other.
class reactor : public caf::execution_unit {
public:
  /// `wake` makes the thread return from its poll; any thread calls it.
  reactor(caf::actor_system& system, std::function<void()> wake);

  ~reactor() override { close(); }

  /// Passes the queued jobs, and all later ones, to CAF's workers.
  /// Precondition: the adopted thread has ended and the actor system still
  /// exists. A second call does nothing.
  void close();

  /// Makes the calling thread the one that runs the jobs (the adopted thread).
  void adopt_this_thread() { owner_ = std::this_thread::get_id(); }

  /// Whether the calling thread is the adopted thread.
  bool is_on_this_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  /// Queues an actor. Unlike CAF's own units, other threads may call this: a
  /// device thread names this unit as host, and its result is handled here.
  void exec_later(caf::resumable* job) override;

  /// Runs at most `max` jobs, including jobs that these cause. Returns whether
  /// jobs are left. Only on the adopted thread.
  bool run(size_t max);

  /// Whether jobs are queued. Only on the adopted thread.
  bool has_work() {
    std::lock_guard guard{mutex_};
    return next_ < ready_.size() || !posted_.empty();
  }

private:
  void take_posted();

  std::function<void()> wake_;
  std::atomic<std::thread::id> owner_;
  std::vector<caf::resumable*> ready_; // FIFO from next_
  size_t next_ = 0;
  std::mutex mutex_; ///< guards the members below
  std::vector<caf::resumable*> posted_;
  bool closed_ = false;
};

} // namespace millrace
