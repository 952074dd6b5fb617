// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/error.hpp"
#include "runtime/time.hpp"

namespace millrace {

struct http_answer {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

struct http_limits {
  /// Open at once; another one closes the one that has been idle or busy with
  /// one request for the longest time.
  size_t connections_max = 64;
  /// For a request to arrive, from the connection's start or the last answer.
  milliseconds request_max = 5s;
  milliseconds answer_max = 30s; ///< for an answer to be read
};

/// A small read-only HTTP server with a thread of its own, for metrics and
/// probes. Answers GET and HEAD on fixed paths; anything else is 404 or 405.
/// Clients that send or read slowly cannot keep others out: see http_limits.
class http_server {
public:
  using handler = std::function<http_answer()>;

  /// Listens on HOST:PORT (port 0: any free one). Handlers run on the server's
  /// thread.
  /// Errors: bad_config when the address is wrong or taken.
  static result<std::unique_ptr<http_server>>
  listen(const std::string& address, std::map<std::string, handler> routes,
         http_limits limits = {});

  virtual ~http_server() = default;

  /// The port that was bound.
  virtual uint16_t port() const = 0;
};

} // namespace millrace
