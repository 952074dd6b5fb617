// SPDX-License-Identifier: Apache-2.0
#include "runtime/virtual/world.hpp"

#include <algorithm>

#include <caf/actor_registry.hpp>
#include <caf/exit_reason.hpp>

#include "runtime/assert.hpp"

namespace millrace {

// -- a process ----------------------------------------------------------------

virtual_process::config::config() {
  set("scheduler.policy", caf::atom("testing"));
  millrace::add_error_category(*this);
}

virtual_process::virtual_process(virtual_world& world, std::string name,
                                 nanoseconds origin)
  : world_(world),
    name_(std::move(name)),
    origin_(origin),
    system_(config_),
    scheduler_(
      dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())) {
  enter(world.now());
}

virtual_process::~virtual_process() {
  end();
}

void virtual_process::enter(timestamp now) {
  scheduler_.clock().current_time = local(now);
}

timestamp virtual_process::next_timer() const {
  auto& timers = scheduler_.clock().schedule();
  return timers.empty() ? far_future : global(timers.begin()->first);
}

void virtual_process::fire_timers(timestamp now) {
  if (next_timer() <= now)
    scheduler_.advance_time(nanoseconds{0});
}

size_t virtual_process::run(random_stream* order) {
  size_t n = 0;
  auto& jobs = scheduler_.jobs;
  while (!jobs.empty()) {
    if (order != nullptr && jobs.size() > 1)
      std::swap(jobs.front(), jobs[order->below(jobs.size())]);
    scheduler_.run_once();
    ++n;
  }
  return n;
}

void virtual_process::resume() {
  if (!paused_)
    return;
  paused_ = false;
  auto held = std::move(held_);
  held_.clear();
  for (auto& x : held)
    world_.soon(*this, std::move(x));
  world_.arm(*this);
}

void virtual_process::end() {
  if (ended_)
    return;
  ended_ = true;
  enter(world_.now());
  for (auto& x : roots_)
    caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
  roots_.clear();
  held_.clear();
  scheduler_.clock().cancel_all();
  run(nullptr);
  scheduler_.clock().cancel_all();
  run(nullptr);
  MILLRACE_ASSERT(actors() == 0);
}

// -- the world ----------------------------------------------------------------

virtual_world::~virtual_world() {
  // Scheduled actions may hold actors, so they are destroyed here.
  for (auto& x : processes_)
    x->end();
  slots_.clear();
  queue_.clear();
}

virtual_process& virtual_world::add_process(std::string name,
                                            nanoseconds origin) {
  processes_.push_back(
    std::make_unique<virtual_process>(*this, std::move(name), origin));
  return *processes_.back();
}

namespace {

constexpr auto later = [](auto& a, auto& b) {
  return a.when != b.when ? a.when > b.when : a.number > b.number;
};

} // namespace

void virtual_world::push(timestamp when, virtual_process* where, action what) {
  size_t slot = slots_.size();
  if (free_slots_.empty()) {
    slots_.push_back({where, std::move(what)});
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot] = {where, std::move(what)};
  }
  queue_.push_back({std::max(when, now_), ++last_, slot});
  std::push_heap(queue_.begin(), queue_.end(), later);
}

timestamp virtual_world::next_due() const {
  return queue_.empty() ? far_future : queue_.front().when;
}

void virtual_world::run_until(timestamp end,
                              const std::function<bool()>& stop) {
  while (next_due() <= end) {
    step();
    if (stop && stop())
      return;
  }
  now_ = std::max(now_, end);
}

void virtual_world::step() {
  std::pop_heap(queue_.begin(), queue_.end(), later);
  auto next = queue_.back();
  queue_.pop_back();
  auto x = std::move(slots_[next.slot]);
  free_slots_.push_back(next.slot);
  now_ = next.when;
  if (x.where == nullptr) {
    ++actions_;
    x.what();
  } else {
    visit(*x.where, x.what);
  }
}

void virtual_world::visit(virtual_process& where, action& what) {
  if (where.ended_)
    return;
  if (!what)
    where.armed_.pop_back();
  if (where.paused_) {
    if (what)
      where.held_.push_back(std::move(what));
    return;
  }
  where.enter(now_);
  if (what) {
    ++actions_;
    what();
    what = nullptr;
  } else {
    where.fire_timers(now_);
  }
  messages_ += where.run(order_ ? &*order_ : nullptr);
  arm(where);
}

void virtual_world::arm(virtual_process& process) {
  auto due = process.next_timer();
  if (due == far_future
      || (!process.armed_.empty() && process.armed_.back() <= due))
    return;
  process.armed_.push_back(due);
  push(due, &process, nullptr);
}

} // namespace millrace
