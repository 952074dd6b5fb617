// SPDX-License-Identifier: Apache-2.0
#include "runtime/reactor.hpp"

#include <utility>

#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace millrace {

namespace {

/// Messages that an actor may handle before the next actor runs.
constexpr size_t messages_per_turn = 64;

} // namespace

reactor::reactor(caf::actor_system& system, std::function<void()> wake)
  : caf::execution_unit(&system),
    wake_(std::move(wake)),
    owner_(std::this_thread::get_id()) {
}

void reactor::close() {
  {
    std::lock_guard guard{mutex_};
    if (std::exchange(closed_, true))
      return;
  }
  owner_ = std::thread::id{};
  take_posted();
  for (; next_ < ready_.size(); ++next_)
    system().scheduler().enqueue(ready_[next_]);
}

void reactor::exec_later(caf::resumable* job) {
  if (is_on_this_thread()) {
    ready_.push_back(job);
    return;
  }
  std::unique_lock guard{mutex_};
  if (closed_) {
    guard.unlock();
    return system().scheduler().enqueue(job);
  }
  auto first = posted_.empty();
  posted_.push_back(job);
  guard.unlock();
  if (first)
    wake_();
}

void reactor::take_posted() {
  std::lock_guard guard{mutex_};
  ready_.insert(ready_.end(), posted_.begin(), posted_.end());
  posted_.clear();
}

bool reactor::run(size_t max) {
  take_posted();
  for (; max > 0 && next_ < ready_.size(); --max) {
    auto* job = ready_[next_++];
    switch (job->resume(this, messages_per_turn)) {
    case caf::resumable::resume_later:
      ready_.push_back(job);
      break;
    case caf::resumable::done:
    case caf::resumable::awaiting_message:
      caf::intrusive_ptr_release(job);
      break;
    case caf::resumable::shutdown_execution_unit:
      break; // sent only to CAF's own workers
    }
  }
  if (next_ < ready_.size())
    return true;
  ready_.clear();
  next_ = 0;
  return false;
}

} // namespace millrace
