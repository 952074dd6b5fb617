// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/scheduler/test_coordinator.hpp>

#include "runtime/actor.hpp"
#include "runtime/random.hpp"
#include "runtime/virtual/action.hpp"

namespace millrace {

class virtual_world;

/// A process of the simulated world: an actor system of its own on CAF's
/// deterministic coordinator, with a clock of its own whose origin no other
/// process shares, as steady clocks have it.
class virtual_process {
public:
  virtual_process(virtual_world& world, std::string name, nanoseconds origin);
  virtual_process(const virtual_process&) = delete;
  virtual_process& operator=(const virtual_process&) = delete;
  ~virtual_process();

  const std::string& name() const { return name_; }
  caf::actor_system& system() { return system_; }
  virtual_world& world() { return world_; }

  /// A point of the world's time on this process's clock.
  timestamp local(timestamp when) const { return when + origin_; }
  /// The way back.
  timestamp global(timestamp when) const {
    return when == far_future ? when : when - origin_;
  }

  /// Keeps an actor to be ended with the process; returns it.
  template <class Handle>
  Handle adopt(Handle x) {
    roots_.push_back(caf::actor_cast<caf::actor>(x));
    return x;
  }

  /// Nothing runs and no time passes here until resume; what should have
  /// happened meanwhile happens then, in order.
  void pause() { paused_ = true; }
  void resume();
  bool paused() const { return paused_; }

  /// Ends all actors at once. What they still say is for their bus to drop.
  /// What was scheduled here never happens.
  void end();
  bool ended() const { return ended_; }

  /// Actors that have not ended.
  size_t actors() { return system_.registry().running(); }

private:
  friend class virtual_world;

  struct config : caf::actor_system_config {
    config();
  };

  void enter(timestamp now);
  void fire_timers(timestamp now);
  size_t run(random_stream* order);
  timestamp next_timer() const;

  virtual_world& world_;
  std::string name_;
  nanoseconds origin_;
  config config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  std::vector<caf::actor> roots_;
  std::vector<timestamp> armed_; ///< wake-ups in the queue, the next one last
  std::vector<action> held_;     ///< while paused
  bool paused_ = false;
  bool ended_ = false;
};

/// The simulated world's time: one queue of what happens next over all its
/// processes. What is due together happens in order of call; with an order of
/// chance given, actors that are ready together run in that order. Nothing
/// here or below reads a real clock.
class virtual_world {
public:
  /// When a world begins: CAF's clock takes zero for something else.
  static constexpr timestamp beginning{std::chrono::hours{1}};

  virtual_world() = default;
  virtual_world(const virtual_world&) = delete;
  virtual_world& operator=(const virtual_world&) = delete;
  ~virtual_world();

  timestamp now() const { return now_; }
  microseconds elapsed() const { return to_us(now_ - beginning); }

  /// The process lives as long as the world; see virtual_process::end.
  virtual_process& add_process(std::string name, nanoseconds origin = {});

  /// Has something happen, now at the earliest.
  void at(timestamp when, action what) { push(when, nullptr, std::move(what)); }

  /// Has something happen in a process: its clock shows that time, and what it
  /// wakes has run before anything else happens. Not if the process has ended.
  void at(timestamp when, virtual_process& where, action what) {
    push(when, &where, std::move(what));
  }

  /// In a process, as soon as what happens now is over.
  void soon(virtual_process& where, action what) {
    at(now_, where, std::move(what));
  }

  /// Lets all happen that is due by then. Returns early when `stop` says so,
  /// which is asked after each event.
  void run_until(timestamp end, const std::function<bool()>& stop = {});
  void run_for(microseconds length) { run_until(now_ + length); }

  /// When the next thing happens.
  timestamp next_due() const;

  /// Draws the order of actors that are ready together.
  void shuffle(random_stream order) { order_ = std::move(order); }

  /// Messages that actors have handled, and things that adapters did.
  uint64_t messages() const { return messages_; }
  uint64_t actions() const { return actions_; }

private:
  friend class virtual_process;

  /// What happens when; small, since the heap moves it about.
  struct event {
    timestamp when;
    uint64_t number = 0;
    size_t slot = 0; ///< of what happens
  };
  struct happening {
    virtual_process* where = nullptr;
    action what; ///< none: the process's timers
  };

  void push(timestamp when, virtual_process* where, action what);
  void step();
  void visit(virtual_process& where, action& what);
  void arm(virtual_process& x);

  timestamp now_ = beginning;
  std::vector<event> queue_; ///< a heap
  std::vector<happening> slots_;
  std::vector<size_t> free_slots_;
  uint64_t last_ = 0;
  uint64_t messages_ = 0;
  uint64_t actions_ = 0;
  std::optional<random_stream> order_;
  std::vector<std::unique_ptr<virtual_process>> processes_;
};

} // namespace millrace
