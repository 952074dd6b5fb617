// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/actor.hpp"

namespace millrace {

/// Runs actors on the thread that polls the sockets. A message that arrives is
/// handled, and what its handlers send is handled, on that one thread until
/// something has to wait: on the request path no thread is woken that the work
/// does not need. CAF keeps each actor on one thread at a time, so actors here
/// and actors on CAF's own workers (timers, other threads) mix freely.
class reactor : public caf::execution_unit {
public:
  /// `wake` makes the thread return from its poll; called from any thread.
  reactor(caf::actor_system& system, std::function<void()> wake);

  ~reactor() override { close(); }

  /// Hands what has not run, and what comes from now on, to CAF's workers. The
  /// adopted thread has ended; the actor system is there. Again: nothing.
  void close();

  /// Makes the calling thread the one that runs the jobs.
  void adopt_this_thread() { owner_ = std::this_thread::get_id(); }

  /// Whether the calling thread is that one.
  bool is_on_this_thread() const {
    return owner_.load(std::memory_order_relaxed) == std::this_thread::get_id();
  }

  /// Queues an actor. From other threads too, unlike CAF's own units: a device
  /// thread names this unit as host and its result is handled here.
  void exec_later(caf::resumable* job) override;

  /// Runs at most max jobs, those they cause included. Returns whether any are
  /// left. Only on the adopted thread.
  bool run(size_t max);

  /// Whether something waits to be run. Only on the adopted thread.
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
  std::mutex mutex_; ///< guards what follows
  std::vector<caf::resumable*> posted_;
  bool closed_ = false;
};

} // namespace millrace
