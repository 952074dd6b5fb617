// SPDX-License-Identifier: Apache-2.0
#include "runtime/actor.hpp"

#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

namespace millrace {

namespace {

constexpr auto category = caf::atom("millrace");

ec code_of(caf::sec x) {
  switch (x) {
  case caf::sec::request_receiver_down:
  case caf::sec::cannot_connect_to_node:
  case caf::sec::remote_linking_failed:
    return ec::unavailable;
  case caf::sec::request_timeout:
    return ec::deadline_exceeded;
  case caf::sec::unexpected_message:
    return ec::bad_request;
  default:
    return ec::internal;
  }
}

} // namespace

caf::error to_caf(const error& failure) {
  return caf::error{
    static_cast<uint8_t>(failure.code), category,
    caf::make_message(failure.text, int64_t{failure.retry_after.count()})};
}

error from_caf(const caf::error& failure) {
  if (!failure)
    return {ec::internal, "no error"};
  if (failure.category() == category) {
    error out{static_cast<ec>(failure.code()), {}, {}};
    if (failure.context().match_elements<std::string, int64_t>()) {
      out.text = failure.context().get_as<std::string>(0);
      out.retry_after = microseconds{failure.context().get_as<int64_t>(1)};
    }
    return out;
  }
  if (failure.category() == caf::atom("system")) {
    auto code = static_cast<caf::sec>(failure.code());
    auto text = code == caf::sec::unexpected_message
                  ? "the actor has no handler for this message"
                  : to_string(code);
    return {code_of(code), text, {}};
  }
  if (failure.category() == caf::atom("exit"))
    return {ec::unavailable,
            "exit: " + to_string(static_cast<caf::exit_reason>(failure.code())),
            {}};
  return {ec::internal, to_string(failure), {}};
}

void add_error_category(caf::actor_system_config& config) {
  config.add_error_category(
    category, [](uint8_t code, caf::atom_value, const caf::message& context) {
      auto x = from_caf(caf::error{code, category, context});
      return to_string(x);
    });
}

} // namespace millrace
