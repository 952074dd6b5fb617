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
  /// Open connections. A further connection closes the one that has been idle,
  /// or in the same request, for the longest time.
  size_t connections_max = 64;
  /// Time in which a request must arrive, from the start of the connection or
  /// the end of the last answer.
  milliseconds request_max = 5s;
  milliseconds answer_max =
    30s; ///< time in which the client must read an answer
};

/// A small read-only HTTP server with its own thread, for metrics and probes.
/// The server answers GET and HEAD on fixed paths; other requests get 404 or
/// 405. Slow clients cannot keep others out: see http_limits.
class http_server {
public:
  using handler = std::function<http_answer()>;

  /// Listens on HOST:PORT (port 0: any free port). Handlers run on the server's
  /// thread.
  /// Errors: bad_config when the address is wrong or taken.
  static result<std::unique_ptr<http_server>>
  listen(const std::string& address, std::map<std::string, handler> routes,
         http_limits limits = {});

  virtual ~http_server() = default;

  /// The bound port.
  virtual uint16_t port() const = 0;
};

} // namespace millrace
