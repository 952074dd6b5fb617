// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_thread.hpp"

#include <pthread.h>
#include <sys/resource.h>

namespace millrace {

worker_thread::worker_thread(const std::string& name, thread_priority priority)
  : thread_([this, name, priority] {
      name_this_thread(name);
      if (priority == thread_priority::least) // on Linux this sets the priority
                                              // of the calling thread only
        ::setpriority(PRIO_PROCESS, 0, 19);
      run();
    }) {
}

worker_thread::~worker_thread() {
  {
    std::lock_guard guard{mutex_};
    stopping_ = true;
  }
  filled_.notify_one();
  thread_.join();
}

void worker_thread::post(job work) {
  {
    std::lock_guard guard{mutex_};
    jobs_.push_back(std::move(work));
  }
  filled_.notify_one();
}

void worker_thread::post_after(milliseconds wait, job work) {
  {
    std::lock_guard guard{mutex_};
    later_.emplace(steady_now() + wait, std::move(work));
  }
  filled_.notify_one();
}

void worker_thread::repeat(milliseconds pause, job work) {
  post([this, pause, x = std::move(work)]() mutable {
    x();
    post_after(pause, [this, pause, x = std::move(x)] { repeat(pause, x); });
  });
}

void worker_thread::run() {
  std::unique_lock guard{mutex_};
  while (!stopping_) {
    if (!jobs_.empty()) {
      auto next = std::move(jobs_.front());
      jobs_.pop_front();
      guard.unlock();
      next();
      next = nullptr; // destroy the job before taking the lock again
      guard.lock();
    } else if (later_.empty()) {
      filled_.wait(guard);
    } else if (auto first = later_.begin(); steady_now() >= first->first) {
      jobs_.push_back(std::move(first->second));
      later_.erase(first);
    } else {
      filled_.wait_until(guard, first->first);
    }
  }
}

void name_this_thread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

} // namespace millrace
