// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/error.hpp"

namespace millrace {

struct http_answer {
  unsigned status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

/// A small read-only HTTP server with a thread of its own, for metrics and
/// probes. Answers GET on fixed paths; anything else is 404 or 405. At most 64
/// connections, each closed after 5 s of silence.
class http_server {
public:
  using handler = std::function<http_answer()>;

  /// Listens on HOST:PORT (port 0: any free one). Handlers run on the server's
  /// thread.
  /// Errors: bad_config when the address is wrong or taken.
  static result<std::unique_ptr<http_server>>
  listen(const std::string& address, std::map<std::string, handler> routes);

  virtual ~http_server() = default;

  /// The port that was bound.
  virtual uint16_t port() const = 0;
};

} // namespace millrace
