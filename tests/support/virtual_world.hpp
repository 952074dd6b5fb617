// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <caf/scheduler/test_coordinator.hpp>
#include <caf/scoped_actor.hpp>

#include "runtime/actor.hpp"

namespace millrace::test {

/// An actor system on CAF's deterministic coordinator: nothing runs and no time
/// passes but by the calls below.
class virtual_world {
public:
  virtual_world()
    : system(prepared(config)),
      self(system, true),
      scheduler(
        dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())) {
    scheduler.clock().current_time += std::chrono::hours(1); // 0 is special
  }

  ~virtual_world() { end(); }

  /// Ends what was adopted: actors that wait for timers would keep the system
  /// alive.
  void end() {
    for (auto& x : adopted_)
      caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
    adopted_.clear();
    drain();
  }

  template <class Handle>
  Handle adopt(Handle x) {
    adopted_.push_back(caf::actor_cast<caf::actor>(x));
    return x;
  }

  timestamp now() { return scheduler.clock().now(); }

  /// Runs everything that is ready.
  void drain() {
    while (scheduler.try_run_once()) {
    }
  }

  /// Lets time pass in steps, so that timers set meanwhile fire too.
  void advance(microseconds length, microseconds step = 1ms) {
    drain();
    for (auto left = length; left.count() > 0; left -= step) {
      scheduler.advance_time(std::min(left, step));
      drain();
    }
  }

  caf::actor_system_config config;
  caf::actor_system system;
  caf::scoped_actor self;
  caf::scheduler::test_coordinator& scheduler;

private:
  static caf::actor_system_config& prepared(caf::actor_system_config& x) {
    x.set("scheduler.policy", caf::atom("testing"));
    add_error_category(x);
    return x;
  }

  std::vector<caf::actor> adopted_;
};

} // namespace millrace::test
