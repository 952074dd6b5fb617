// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/bytes.hpp"
#include "transport/objects/settings.hpp"

namespace millrace {

/// Read access to the files of an object store. Any thread may call; the store
/// calls back on its own. A store under destruction calls back no more.
class object_store {
public:
  virtual ~object_store() = default;

  /// Reads a file, or bytes [first, first + bytes) of one.
  struct request {
    std::string path; ///< relative to the store
    uint64_t first = 0;
    uint64_t bytes = 0; ///< 0: all
    uint64_t most = 0;  ///< size limit of the answer
  };
  using got = std::function<void(result<shared_bytes>)>;

  /// Retries temporary errors, with growing pauses. Errors: unavailable;
  /// forbidden (credentials unknown or without permission); unknown_model (no
  /// such file or bucket); too_large. Each has the URL and the text of the
  /// server.
  virtual void get(request wanted, got done) = 0;
};

/// Opens a store that libcurl reads, over as many connections as the settings
/// allow. Redirections are errors, and so are connections to addresses that the
/// settings do not allow, whatever the name in the URL.
/// Errors: bad_config.
result<std::unique_ptr<object_store>>
open_object_store(const object_store_config& settings);

} // namespace millrace
