// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/bytes.hpp"
#include "transport/objects/settings.hpp"

namespace millrace {

/// Files that are kept for everybody, somewhere. Any thread may ask; calls back
/// on its own. One that is being destroyed calls back no more.
class object_store {
public:
  virtual ~object_store() = default;

  /// Reads a file, or bytes [first, first + bytes) of one.
  struct request {
    std::string path; ///< relative to the store
    uint64_t first = 0;
    uint64_t bytes = 0; ///< 0: all
    uint64_t most = 0;  ///< of all, at most so many
  };
  using got = std::function<void(result<shared_bytes>)>;

  /// Tries again, with pauses that grow, what may work the next time.
  /// Errors: unavailable, forbidden (who we are is not known there, or may
  /// not), unknown_model (no such file or bucket), too_large; with the URL and
  /// what the other side says.
  virtual void get(request x, got done) = 0;
};

/// One that is reached by libcurl, over as many connections as the settings
/// say. Nobody is sent anywhere else: redirections are errors, and so are
/// addresses that the settings do not allow, whatever a name stands for.
/// Errors: bad_config.
result<std::unique_ptr<object_store>>
open_object_store(const object_store_config& settings);

} // namespace millrace
