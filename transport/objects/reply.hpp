// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <curl/curl.h>

#include "runtime/error.hpp"

namespace millrace {

/// Result of a request to an object store.
struct object_reply {
  std::string url;
  CURLcode code = CURLE_OK;
  long status = 0; ///< of HTTP; 0: a file, or no answer
  std::string why; ///< libcurl's error text
  std::string body;
  uint64_t first = 0; ///< of the range
  uint64_t range = 0; ///< requested bytes; 0: all
  uint64_t most = 0;
  bool too_large = false; ///< the transfer was ended
  std::string signed_by;  ///< source of the credentials; empty: not signed
};

/// The error of a reply, and whether another attempt may succeed.
struct object_failure {
  error what;
  bool may_pass = false;
};

/// None: the body is the requested content.
std::optional<object_failure> failure_of(const object_reply& reply);

} // namespace millrace
