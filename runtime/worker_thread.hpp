// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "runtime/time.hpp"

namespace millrace {

/// Scheduling priority of a thread: normal, or only otherwise idle CPU time.
enum class thread_priority : uint8_t { normal, least };

/// A thread with a FIFO queue of jobs, for adapters with blocking calls (a
/// disk, a device). The destructor waits for the running job, drops the queued
/// jobs and joins.
class worker_thread {
public:
  using job = std::function<void()>;

  /// The name (the first 15 characters) appears in top and perf.
  explicit worker_thread(const std::string& name,
                         thread_priority priority = thread_priority::normal);
  ~worker_thread();

  void post(job work);

  /// Runs a job after `wait`, or later if other jobs are queued.
  void post_after(milliseconds wait, job work);

  /// Runs a job now, and again `pause` after each time it has ended.
  void repeat(milliseconds pause, job work);

private:
  void run();

  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<job> jobs_;
  std::multimap<timestamp, job> later_;
  bool stopping_ = false;
  std::thread thread_;
};

/// Names the calling thread for top, perf and gdb.
void name_this_thread(const std::string& name);

} // namespace millrace
