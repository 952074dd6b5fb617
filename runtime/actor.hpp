// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The only header that includes CAF. Every actor of the project includes this
/// header; no file includes CAF's umbrella header.

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

/// Declared records travel between actors of a process as C++ objects. Between
/// processes our own codec encodes them, so CAF needs no serialisation code for
/// these types.
template <millrace::declared T>
struct caf::allowed_unsafe_message_type<T> : std::true_type {};

namespace millrace {

/// Converts our error to CAF's type; text and retry_after are kept.
caf::error to_caf(const error& failure);

/// Converts a CAF error to ours. CAF's own errors map as follows:
/// request_receiver_down and similar to unavailable, timeouts to
/// deadline_exceeded, all others to internal.
error from_caf(const caf::error& failure);

/// Registers the text form of our errors with CAF.
void add_error_category(caf::actor_system_config& config);

/// Sets the handlers common to all actors of the project. An exception that
/// ends an actor keeps its text for the log, the monitor and pending requests.
/// An actor refuses a message that it has no handler for, instead of printing
/// the message.
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

/// Sends `message` to `self` at time `when` of the actor clock.
template <class Self, class T>
void send_at(Self* self, timestamp when, T message) {
  self->scheduled_send(self, when, std::move(message));
}

/// Sends an actor a tick when its next timer is due. CAF cannot cancel a
/// scheduled tick, so rings() ignores a tick that an earlier one has replaced.
/// Otherwise each replaced tick would schedule another, for ever.
class alarm {
public:
  template <class Self>
  void set(Self* self, timestamp when) {
    if (when >= at_)
      return;
    at_ = when;
    send_at(self, std::max(when, self->clock().now()), caf::tick_atom_v);
  }

  /// Handles a tick: returns true, and clears the alarm, if the tick is the one
  /// that is due.
  bool rings(timestamp now) {
    if (now < at_)
      return false;
    at_ = far_future;
    return true;
  }

private:
  timestamp at_ = far_future;
};

/// Returns a function with which any thread can send the actor a T. The
/// function does nothing after the actor has ended.
template <class T, class Self>
auto teller(Self* self) {
  return [me = caf::actor_cast<caf::weak_actor_ptr>(self->ctrl())](T x) {
    if (auto to = caf::actor_cast<caf::strong_actor_ptr>(me))
      caf::anon_send(caf::actor_cast<typename Self::actor_hdl>(to),
                     std::move(x));
  };
}

} // namespace millrace
