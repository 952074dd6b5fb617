// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <curl/curl.h>

#include "runtime/error.hpp"

namespace millrace {

/// How a request to an object store ended.
struct object_reply {
  std::string url;
  CURLcode code = CURLE_OK;
  long status = 0; ///< of HTTP; 0: of a file, or nobody answered
  std::string why; ///< libcurl's words
  std::string body;
  uint64_t first = 0; ///< of the range
  uint64_t range = 0; ///< bytes that were asked for; 0: all
  uint64_t most = 0;
  bool too_large = false; ///< and was left
  std::string signed_by;  ///< where the credentials are from; empty: nobody's
};

/// What is wrong with it, and whether another attempt makes sense.
struct object_failure {
  error what;
  bool may_pass = false;
};

/// None: the body is what was asked for.
std::optional<object_failure> failure_of(const object_reply& x);

} // namespace millrace
