// SPDX-License-Identifier: Apache-2.0
#include "models/confined/running_process.hpp"

#include <algorithm>
#include <array>
#include <unistd.h>
#include <utility>

#include "runtime/units.hpp"

namespace millrace::confined {

namespace {

/// How long a stage stays suspect.
constexpr auto suspected = 1min;

/// Address space of a stage, besides its weights and its threads' stacks.
constexpr uint64_t beside_weights = 32 << 20;
constexpr uint64_t stack = 8 << 20;

/// A process that reads no orders for this time does not listen.
constexpr auto unread = 1s;

/// A stage that has not ended this long after leave() may run something
/// endless.
constexpr auto slow_to_leave = 10s;

/// Consecutive checks that find a process stopped before it is ended.
constexpr int stopped_looks = 3;

/// glibc gives threads heaps of 64 MiB.
constexpr uint64_t all_heaps = uint64_t{most_heaps} * (64 << 20);

/// Threads of LibTorch's own pools, for all processors.
long threads_of_pools() {
  return 64 + 2 * ::sysconf(_SC_NPROCESSORS_ONLN);
}

} // namespace

bool running_process::guest::lingers() const {
  return done < steady_now() - slow_to_leave;
}

result<running_process::entry> running_process::enter(const std::string& stage,
                                                      const life_order& how,
                                                      size_t threads) {
  std::lock_guard guard{mutex_};
  if (how.on_gpu != 0 && stages_ == 0)
    most_memory_ = how.memory;
  if (shared_)
    return add_guest(stage, how, threads);
  ++stages_;
  threads_ += threads;
  return entry{std::move(child_.life_line)};
}

void running_process::expect_threads(uint64_t number, size_t threads) {
  std::lock_guard guard{mutex_};
  if (!shared_)
    threads_ = std::max(threads_, threads);
  for (auto& guest : guests_)
    if (guest.number == number && threads > guest.threads) {
      auto more = threads - guest.threads;
      guest.threads = threads;
      guest.memory += more * stack;
      threads_ += more;
      memory_ += more * stack;
    }
}

void running_process::leave(uint64_t number) {
  std::lock_guard guard{mutex_};
  for (auto& x : guests_)
    if (x.number == number)
      x.done = steady_now();
  if (--stages_ == 0)
    kill_locked(by_itself, false);
}

result<running_process::entry>
running_process::add_guest(const std::string& stage, const life_order& how,
                           size_t threads) {
  forget_who_left();
  auto memory = how.weights_bytes + threads * stack + beside_weights;
  if (guests_.empty())
    limit_ = how.on_gpu != 0 ? UINT64_MAX : how.memory;
  else if (memory_ + memory + all_heaps > limit_)
    return error{ec::overloaded,
                 "the process that models share has no room for another: of "
                   + format_bytes(limit_) + " that it may take (process_memory)"
                   + " others may need " + format_bytes(memory_)};
  auto life = make_connection();
  if (!life)
    return life.failure();
  auto presence = make_connection();
  if (!presence)
    return presence.failure();
  auto order = how;
  order.what = life_order::beside;
  std::array files{life->second.get(), presence->second.get()};
  if (life_ == process_life::ended
      || !send_record(child_.life_line, order, files, steady_now() + unread)) {
    close_locked();
    return error{ec::unavailable, "the process has ended, or does not listen"};
  }
  guests_.push_back(
    {++last_guest_, stage, std::move(presence->first), threads, memory});
  ++stages_;
  threads_ += threads;
  memory_ += memory;
  return entry{std::move(life->first), last_guest_};
}

void running_process::forget_who_left() {
  std::erase_if(guests_, [&](auto& x) {
    auto has_left = wait_for(x.left, steady_now());
    if (has_left) {
      threads_ -= x.threads;
      memory_ -= x.memory;
    }
    return has_left;
  });
}

bool running_process::is_crowded() {
  std::lock_guard guard{mutex_};
  forget_who_left();
  return look_at(child_.id).threads
         > threads_of_pools() + static_cast<long>(threads_);
}

bool running_process::has_too_much_memory() {
  std::lock_guard guard{mutex_};
  return most_memory_ != UINT64_MAX
         && private_bytes_of(child_.id) > most_memory_;
}

void running_process::close() {
  std::lock_guard guard{mutex_};
  close_locked();
}

void running_process::close_locked() {
  if (life_ == process_life::open)
    life_ = process_life::closed;
}

bool running_process::takes_others() {
  std::lock_guard guard{mutex_};
  return life_ == process_life::open && !wait_for(child_.ended, steady_now())
         && std::none_of(guests_.begin(), guests_.end(),
                         [](auto& x) { return x.lingers(); });
}

std::vector<std::string> running_process::lingering() {
  std::lock_guard guard{mutex_};
  forget_who_left();
  std::vector<std::string> out;
  for (auto& x : guests_)
    if (x.lingers())
      out.push_back(x.stage);
  return out;
}

process_end running_process::end(std::string_view why, bool known) {
  std::lock_guard guard{mutex_};
  kill_locked(why, known);
  auto what = why_.empty() ? "ended with " + end_text(status_) : why_;
  if (!shared_)
    return {"the model's process " + what,
            why_.empty() && !status_ ? ec::cancelled : ec::unavailable};
  auto is_cause = known && known_ && why == why_;
  return {"the process that the model shared " + what,
          is_cause ? ec::unavailable : ec::cancelled, known_};
}

void running_process::kill_locked(std::string_view why, bool known) {
  if (std::exchange(life_, process_life::ended) == process_life::ended)
    return;
  status_ = parent_.end(child_);
  why_ = why;
  known_ = known;
}

std::string_view process_watch::look() {
  stopped_ = at_.is_stopped() ? stopped_ + 1 : 0;
  if (stopped_ == stopped_looks)
    return "was stopped by a signal, and was ended";
  if (at_.has_too_much_memory())
    return "took more memory than process_memory, and was ended";
  if (at_.is_crowded())
    return "had too many threads, and was ended";
  return {};
}

void process_source::suspect(const std::string& stage) {
  std::lock_guard guard{suspects_mutex_};
  suspects_[stage] = steady_now() + suspected;
}

bool process_source::is_suspect(const std::string& stage) {
  std::lock_guard guard{suspects_mutex_};
  std::erase_if(suspects_, [](auto& x) { return x.second <= steady_now(); });
  return suspects_.contains(stage);
}

result<process_source::entry> process_source::enter(const std::string& stage,
                                                    const life_order& how,
                                                    size_t threads) {
  auto join = [&](const std::shared_ptr<running_process>& x) -> result<entry> {
    auto mine = x->enter(stage, how, threads);
    if (!mine)
      return mine.failure();
    return entry{x, std::move(mine->life_line), mine->number};
  };
  std::unique_lock guard{mutex_};
  if (now_)
    for (auto& x : now_->lingering())
      suspect(x);
  auto shared = shared_ && !is_suspect(stage);
  if (!shared)
    guard.unlock(); // forks run in parallel
  else if (now_ && now_->takes_others())
    if (auto joined = join(now_); joined || now_->takes_others())
      return joined;
  auto child = parent_.fork();
  if (!child)
    return child.failure();
  auto fresh =
    std::make_shared<running_process>(parent_, std::move(*child), shared);
  if (shared)
    now_ = fresh;
  return join(fresh);
}

} // namespace millrace::confined
