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

/// A process of the simulated world. Each process has its own actor system on
/// CAF's deterministic coordinator, and its own clock with a separate origin,
/// like steady clocks of real hosts.
class virtual_process {
public:
  virtual_process(virtual_world& world, std::string name, nanoseconds origin);
  virtual_process(const virtual_process&) = delete;
  virtual_process& operator=(const virtual_process&) = delete;
  ~virtual_process();

  const std::string& name() const { return name_; }
  caf::actor_system& system() { return system_; }
  virtual_world& world() { return world_; }

  /// Converts a time of the world to this process's clock.
  timestamp local(timestamp when) const { return when + origin_; }
  /// Converts a time of this process's clock to the world's.
  timestamp global(timestamp when) const {
    return when == far_future ? when : when - origin_;
  }

  /// Registers an actor that ends with the process; returns the actor.
  template <class Handle>
  Handle adopt(Handle handle) {
    roots_.push_back(caf::actor_cast<caf::actor>(handle));
    return handle;
  }

  /// Stops the process until resume: no actor runs and its clock stands still.
  /// Events that fall due meanwhile run at resume, in order.
  void pause() { paused_ = true; }
  void resume();
  bool paused() const { return paused_; }

  /// Ends all actors at once. The bus drops messages that they send while they
  /// end. Scheduled events of this process never run.
  void end();
  bool ended() const { return ended_; }

  /// The number of running actors.
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
  std::vector<timestamp> armed_; ///< wake-ups in the queue, earliest last
  std::vector<action> held_;     ///< events that fell due during a pause
  bool paused_ = false;
  bool ended_ = false;
};

/// The time of the simulated world: one event queue for all processes. Events
/// with the same time run in the order of the calls. With shuffle(), actors
/// that are ready together run in random order. No code here or below reads a
/// real clock.
class virtual_world {
public:
  /// Start time of a world; not zero, which has another meaning to CAF's clock.
  static constexpr timestamp beginning{std::chrono::hours{1}};

  virtual_world() = default;
  virtual_world(const virtual_world&) = delete;
  virtual_world& operator=(const virtual_world&) = delete;
  ~virtual_world();

  timestamp now() const { return now_; }
  microseconds elapsed() const { return to_us(now_ - beginning); }

  /// Adds a process that lives as long as the world; see virtual_process::end.
  virtual_process& add_process(std::string name, nanoseconds origin = {});

  /// Schedules an action, at the earliest now.
  void at(timestamp when, action what) { push(when, nullptr, std::move(what)); }

  /// Schedules an action in a process, with the process clock at this time. All
  /// actors that the action wakes run before the next event. Dropped if the
  /// process has ended.
  void at(timestamp when, virtual_process& where, action what) {
    push(when, &where, std::move(what));
  }

  /// Schedules an action in a process directly after the current event.
  void soon(virtual_process& where, action what) {
    at(now_, where, std::move(what));
  }

  /// Runs all events that are due by `end`. `stop` is called after each event;
  /// true makes the function return early.
  void run_until(timestamp end, const std::function<bool()>& stop = {});
  void run_for(microseconds length) { run_until(now_ + length); }

  /// The time of the next event.
  timestamp next_due() const;

  /// Runs actors that are ready together in random order.
  void shuffle(random_stream order) { order_ = std::move(order); }

  /// Numbers of messages that actors have handled, and of actions run.
  uint64_t messages() const { return messages_; }
  uint64_t actions() const { return actions_; }

private:
  friend class virtual_process;

  /// A queue entry; small, since the heap moves it often.
  struct event {
    timestamp when;
    uint64_t number = 0;
    size_t slot = 0; ///< index into slots_
  };
  struct happening {
    virtual_process* where = nullptr;
    action what; ///< empty: run the process's timers
  };

  void push(timestamp when, virtual_process* where, action what);
  void step();
  void visit(virtual_process& where, action& what);
  void arm(virtual_process& process);

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
