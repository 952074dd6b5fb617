// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The one header that touches CAF's peculiarities: what every actor of the
/// project includes, and nothing else includes CAF's umbrella.

#include <memory>
#include <string>

#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/execution_unit.hpp>
#include <caf/local_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

/// Declared records travel between actors of a process as they are; between
/// processes our own codec carries them, so CAF needs no serialisation of them.
template <millrace::declared T>
struct caf::allowed_unsafe_message_type<T> : std::true_type {};

namespace millrace {

/// An error of ours as CAF carries it, text and retry_after included.
caf::error to_caf(const error& x);

/// The error of ours that a CAF error stands for. CAF's own become:
/// request_receiver_down and the like unavailable, timeouts
/// deadline_exceeded, everything else internal.
error from_caf(const caf::error& x);

/// Registers how our errors print.
void add_error_category(caf::actor_system_config& config);

/// What every actor of the project does alike. An exception that ends it keeps
/// its text, for the log, the monitor and whoever waits for its answer; a
/// message that it does not take is refused, not printed.
template <class Self>
void set_common_handlers(Self* self) {
  self->set_default_handler(caf::drop);
  self->set_exception_handler([](std::exception_ptr& x) -> caf::error {
    try {
      std::rethrow_exception(x);
    } catch (const std::exception& e) {
      return to_caf(error{ec::internal, std::string{"exception: "} + e.what()});
    } catch (...) {
      return to_caf(error{ec::internal, "an exception of unknown type"});
    }
  });
}

/// Sends `x` to `self` at a point of its clock.
template <class Self, class T>
void send_at(Self* self, timestamp when, T x) {
  self->scheduled_send(self, when, std::move(x));
}

/// Wakes an actor by a tick when something is due. A tick that was sent cannot
/// be taken back: one for later than what came to be due since rings no more,
/// or each such would have another sent, for ever.
class alarm {
public:
  template <class Self>
  void set(Self* self, timestamp when) {
    if (when >= at_)
      return;
    at_ = when;
    send_at(self, std::max(when, self->clock().now()), caf::tick_atom_v);
  }

  /// A tick has come: whether it is the one that counts. Then there is none.
  bool rings(timestamp now) {
    if (now < at_)
      return false;
    at_ = far_future;
    return true;
  }

private:
  timestamp at_ = far_future;
};

/// A way for any thread to send an actor a T for as long as it lives.
template <class T, class Self>
auto teller(Self* self) {
  return [me = caf::actor_cast<caf::weak_actor_ptr>(self->ctrl())](T x) {
    if (auto to = caf::actor_cast<caf::strong_actor_ptr>(me))
      caf::anon_send(caf::actor_cast<typename Self::actor_hdl>(to),
                     std::move(x));
  };
}

} // namespace millrace
