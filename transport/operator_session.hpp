// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <unordered_map>

#include <caf/actor_proxy.hpp>
#include <caf/mailbox_element.hpp>

#include "runtime/actor.hpp"

namespace millrace {

/// A proxy for an operator's connection: answers of actors are sent to the
/// connection. Other messages are dropped.
class operator_session : public caf::actor_proxy {
public:
  using answer_function =
    std::function<void(const std::string& connection, caf::message_id,
                       const caf::type_erased_tuple& content)>;

  operator_session(caf::actor_config& cfg, std::string connection,
                   answer_function answer)
    : caf::actor_proxy(cfg),
      connection_(std::move(connection)),
      answer_(std::move(answer)) {}

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    if (what != nullptr && what->mid.is_response())
      answer_(connection_, what->mid, what->content());
  }

  void kill_proxy(caf::execution_unit* host, caf::error reason) override {
    cleanup(std::move(reason), host);
  }

private:
  std::string connection_;
  answer_function answer_;
};

/// The sessions of all connected operators, `most` at once. A session that
/// waits for no answer is replaced when a new one needs room.
class operator_sessions {
public:
  operator_sessions(caf::actor_system& system,
                    operator_session::answer_function answer)
    : system_(system),
      answer_(std::move(answer)) {}

  /// Null if too many sessions wait for answers.
  caf::strong_actor_ptr of(const std::string& connection);

private:
  static constexpr size_t most = 256;

  caf::actor_system& system_;
  operator_session::answer_function answer_;
  std::unordered_map<std::string, caf::strong_actor_ptr> sessions_;
};

} // namespace millrace
