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

/// When a thread gets a processor: with the others, or when nobody else wants
/// it.
enum class thread_priority : uint8_t { normal, least };

/// A thread with a queue of jobs, for adapters whose calls block (a disk, a
/// device). Jobs run in order. The destructor lets the running job end, drops
/// the others and joins.
class worker_thread {
public:
  using job = std::function<void()>;

  /// The name (15 characters are kept) is what top and perf show.
  explicit worker_thread(const std::string& name,
                         thread_priority priority = thread_priority::normal);
  ~worker_thread();

  void post(job x);

  /// After so long, or later when there is something else to do.
  void post_after(milliseconds wait, job x);

  /// Has a job done now and so long after each time it was done.
  void repeat(milliseconds pause, job x);

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
