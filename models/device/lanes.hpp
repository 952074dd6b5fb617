// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/worker_thread.hpp"

namespace millrace {

/// Threads that take work from one queue: work starts in order, on the first
/// free lane. Any thread may add work.
template <class Work>
class lanes {
public:
  using runner = std::function<void(Work work, uint32_t lane)>;

  /// Creates at least one lane, named NAME.0 and so on. The lanes end before
  /// `run` is destroyed.
  lanes(const std::string& name, uint32_t count, runner run)
    : run_(std::move(run)) {
    for (uint32_t i = 0; i < std::max(1u, count); ++i)
      all_.push_back(std::make_unique<lane>(name + "." + std::to_string(i), i));
  }

  uint32_t count() const { return static_cast<uint32_t>(all_.size()); }

  /// A lane that has no work, if there is one.
  std::optional<uint32_t> without_work() const {
    for (auto& x : all_)
      if (x->called == 0)
        return x->number;
    return std::nullopt;
  }

  /// Whether any work runs or waits.
  bool have_work() const {
    return std::any_of(all_.begin(), all_.end(),
                       [](auto& x) { return x->called > 0; });
  }

  void add(Work work) {
    auto& to = [&]() -> lane& {
      std::lock_guard guard{mutex_};
      waiting_.push_back(std::move(work));
      auto& out = idlest(); // a lane that found the queue empty has decremented
                            // its `called`
      ++out.called;
      return out;
    }();
    to.thread.post([this, &to] {
      // Also takes work added for other lanes that are still busy.
      while (auto next = take(to))
        run_(std::move(*next), to.number);
    });
  }

  /// Runs a job that is no work on a lane, after the lane's present jobs.
  void post(uint32_t to, std::function<void()> job) {
    auto& x = *all_[to];
    ++x.others;
    x.thread.post([&x, job = std::move(job)] {
      job();
      --x.others;
    });
  }

private:
  struct lane {
    lane(const std::string& name, uint32_t n) : number(n), thread(name) {}
    uint32_t number;
    std::atomic<uint32_t> called{0}; ///< calls for work that have not ended
    std::atomic<uint32_t> others{0}; ///< other jobs that run or wait
    worker_thread thread;

    /// Ordered by work first: other jobs yield to it.
    std::pair<uint32_t, uint32_t> load() const { return {called, others}; }
  };

  lane& idlest() const {
    return **std::min_element(all_.begin(), all_.end(), [](auto& a, auto& b) {
      return a->load() < b->load();
    });
  }

  /// The next work for a lane; if there is none, one call of the lane ends.
  std::optional<Work> take(lane& by) {
    std::lock_guard guard{mutex_};
    if (waiting_.empty()) {
      --by.called;
      return std::nullopt;
    }
    auto x = std::move(waiting_.front());
    waiting_.pop_front();
    return x;
  }

  runner run_;
  std::mutex mutex_;
  std::deque<Work> waiting_; ///< guarded
  std::vector<std::unique_ptr<lane>> all_;
};

} // namespace millrace
