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

/// Threads that take work from one queue: what waits is begun in order, by the
/// lane that is free first. Any thread may add some.
template <class Work>
class lanes {
public:
  using runner = std::function<void(Work x, uint32_t lane)>;

  /// At least one, called NAME.0 and so on. They end before `run` does.
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

  /// Whether something runs, or waits.
  bool have_work() const {
    return std::any_of(all_.begin(), all_.end(),
                       [](auto& x) { return x->called > 0; });
  }

  void add(Work x) {
    auto& to = [&]() -> lane& {
      std::lock_guard guard{mutex_};
      waiting_.push_back(std::move(x));
      auto& out = idlest(); // one that has found nothing more has said so
      ++out.called;
      return out;
    }();
    to.thread.post([this, &to] {
      // What another lane was called for, too, if that one is not done yet.
      while (auto next = take(to))
        run_(std::move(*next), to.number);
    });
  }

  /// Has a lane do something that is no work, when it is done with what it has.
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
    std::atomic<uint32_t> called{0}; ///< for work, times, and not done yet
    std::atomic<uint32_t> others{0}; ///< things that it does, or will
    worker_thread thread;

    /// Work first: what else a lane does it gives up for that.
    std::pair<uint32_t, uint32_t> load() const { return {called, others}; }
  };

  lane& idlest() const {
    return **std::min_element(all_.begin(), all_.end(), [](auto& a, auto& b) {
      return a->load() < b->load();
    });
  }

  /// The next one for a lane; where there is none it is done with one call.
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
