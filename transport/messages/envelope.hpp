// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// What every message's first frame begins with, before its body. Fields at
/// their default are not sent; unknown fields are ignored.
struct header {
  uint32_t v = 0;     ///< protocol version
  std::string t;      ///< type: which message the body is
  uint64_t id = 0;    ///< correlation: a reply carries its request's
  std::string to;     ///< address of the receiver; clients leave it out
  std::string from;   ///< address of the sender; clients leave it out
  uint64_t inc = 0;   ///< between nodes: incarnation that is meant
  deadline left;      ///< microseconds until the answer is worthless
  int32_t prio = 0;   ///< higher goes first
  std::string tenant; ///< given by the endpoint, ignored from clients
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
  std::vector<std::string> remarks; ///< that one may want to know of
  MILLRACE_FIELDS(ack, remarks)
};

} // namespace millrace
