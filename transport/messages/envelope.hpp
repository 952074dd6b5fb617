// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// The first map of a message's first frame, before the body. Fields with their
/// default value are not sent; unknown fields are ignored.
struct header {
  uint32_t v = 0;     ///< protocol version
  std::string t;      ///< type of the body
  uint64_t id = 0;    ///< correlation: a reply carries the id of its request
  std::string to;     ///< address of the receiver; clients leave it out
  std::string from;   ///< address of the sender; clients leave it out
  uint64_t inc = 0;   ///< between nodes: incarnation of the intended receiver
  deadline left;      ///< microseconds until the answer is useless
  int32_t prio = 0;   ///< higher is served first
  std::string tenant; ///< set by the endpoint, ignored from clients
  std::string trace;  ///< trace id, passed along
  MILLRACE_FIELDS(header, v, t, id, to, from, inc, left, prio, tenant, trace)
};

inline constexpr uint32_t protocol_version = 2;

/// A failure in place of an answer.
struct error_reply {
  ec code = ec::internal;
  std::string text;
  microseconds retry_after{0};
  MILLRACE_FIELDS(error_reply, code, text, retry_after)
};

/// Success.
struct ack {
  std::vector<std::string> remarks; ///< for the operator to read
  MILLRACE_FIELDS(ack, remarks)
};

} // namespace millrace
