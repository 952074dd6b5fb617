// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_thread.hpp"

#include <pthread.h>

namespace millrace {

worker_thread::worker_thread(const std::string& name)
  : thread_([this, name] {
      name_this_thread(name);
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

void worker_thread::post(job x) {
  {
    std::lock_guard guard{mutex_};
    jobs_.push_back(std::move(x));
  }
  filled_.notify_one();
}

void worker_thread::run() {
  std::unique_lock guard{mutex_};
  for (;;) {
    filled_.wait(guard, [this] { return stopping_ || !jobs_.empty(); });
    if (stopping_)
      return;
    auto next = std::move(jobs_.front());
    jobs_.pop_front();
    guard.unlock();
    next();
    next = nullptr; // what it holds goes before the lock is taken again
    guard.lock();
  }
}

void name_this_thread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

} // namespace millrace
