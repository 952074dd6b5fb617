// SPDX-License-Identifier: Apache-2.0
#include "runtime/worker_thread.hpp"

#include <pthread.h>
#include <sys/resource.h>

namespace millrace {

worker_thread::worker_thread(const std::string& name, thread_priority priority)
  : thread_([this, name, priority] {
      name_this_thread(name);
      if (priority == thread_priority::least) // of this thread alone, on Linux
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

void worker_thread::post(job x) {
  {
    std::lock_guard guard{mutex_};
    jobs_.push_back(std::move(x));
  }
  filled_.notify_one();
}

void worker_thread::repeat(milliseconds pause, job x) {
  {
    std::lock_guard guard{mutex_};
    repeated_ = std::move(x);
    pause_ = pause;
    again_ = {};
  }
  filled_.notify_one();
}

void worker_thread::run() {
  auto due = [this] {
    return stopping_ || !jobs_.empty() || steady_now() >= again_;
  };
  std::unique_lock guard{mutex_};
  for (;;) {
    if (again_ == far_future)
      filled_.wait(guard, due);
    else if (!filled_.wait_until(guard, again_, due))
      continue;
    if (stopping_)
      return;
    auto repeats = jobs_.empty();
    auto next = repeats ? repeated_ : std::move(jobs_.front());
    if (!repeats)
      jobs_.pop_front();
    guard.unlock();
    next();
    next = nullptr; // what it holds goes before the lock is taken again
    guard.lock();
    if (repeats)
      again_ = steady_now() + pause_;
  }
}

void name_this_thread(const std::string& name) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

} // namespace millrace
