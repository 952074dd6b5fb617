// SPDX-License-Identifier: Apache-2.0
#include "models/confined/running_process.hpp"

#include <array>
#include <unistd.h>

namespace millrace::confined {

namespace {

/// Pools of LibTorch's own, on all processors.
long threads_of_pools() {
  return 64 + 2 * ::sysconf(_SC_NPROCESSORS_ONLN);
}

} // namespace

result<file_descriptor> running_process::enter(const life_order& how,
                                               size_t threads) {
  std::lock_guard guard{mutex_};
  if (shared_)
    return add_guest(how, threads);
  ++stages_;
  threads_ += threads;
  return std::move(child_.life_line);
}

void running_process::leave() {
  std::lock_guard guard{mutex_};
  if (--stages_ == 0)
    end_locked({});
}

result<file_descriptor> running_process::add_guest(const life_order& how,
                                                   size_t threads) {
  auto life = make_connection();
  if (!life)
    return life.failure();
  auto presence = make_connection();
  if (!presence)
    return presence.failure();
  auto order = how;
  order.what = life_order::beside;
  std::array files{life->second.get(), presence->second.get()};
  if (ended_ || !send_record(child_.life_line, order, files))
    return error{ec::unavailable, "the process has ended"};
  ++stages_;
  threads_ += threads;
  guests_.push_back({std::move(presence->first), threads});
  return std::move(life->first);
}

bool running_process::is_crowded() {
  std::lock_guard guard{mutex_};
  std::erase_if(guests_, [&](auto& x) {
    auto has_left = wait_for(x.left, steady_now());
    if (has_left)
      threads_ -= x.threads;
    return has_left;
  });
  return look_at(child_.id).threads
         > threads_of_pools() + static_cast<long>(threads_);
}

process_end running_process::end(std::string_view reason) {
  std::lock_guard guard{mutex_};
  return end_locked(reason);
}

process_end running_process::end_locked(std::string_view reason) {
  if (!ended_)
    ended_ = process_end{parent_.end(child_), std::string{reason}};
  return *ended_;
}

result<process_source::entry> process_source::enter(const life_order& how,
                                                    size_t threads) {
  auto join = [&](const std::shared_ptr<running_process>& x) -> result<entry> {
    auto line = x->enter(how, threads);
    return line ? result<entry>{entry{x, std::move(*line)}} : line.failure();
  };
  std::unique_lock guard{mutex_, std::defer_lock};
  if (shared_)
    guard.lock();
  if (now_)
    if (auto joined = join(now_))
      return joined;
  auto child = parent_.fork();
  if (!child)
    return child.failure();
  auto fresh =
    std::make_shared<running_process>(parent_, std::move(*child), shared_);
  if (shared_)
    now_ = fresh;
  return join(fresh);
}

} // namespace millrace::confined
