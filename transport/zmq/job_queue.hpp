// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace millrace::zeromq {

/// Jobs of other threads for the thread that owns the sockets.
class job_queue {
public:
  using job = std::function<void()>;

  /// Any thread.
  void push(job work) {
    std::lock_guard guard{mutex_};
    jobs_.push_back(std::move(work));
  }

  /// Any thread.
  bool empty() const {
    std::lock_guard guard{mutex_};
    return jobs_.empty();
  }

  /// Runs the queued jobs; later ones wait for the next call.
  void run() {
    std::vector<job> jobs;
    {
      std::lock_guard guard{mutex_};
      jobs.swap(jobs_);
    }
    for (auto& x : jobs)
      x();
  }

private:
  mutable std::mutex mutex_;
  std::vector<job> jobs_;
};

} // namespace millrace::zeromq
