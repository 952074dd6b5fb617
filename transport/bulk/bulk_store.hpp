// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/bytes.hpp"

namespace millrace {

/// A source that is not a host and has contents for all hosts. It serves a head
/// and chunks as a host does (see bulk.hpp). Any thread may call; the store
/// calls back on a thread of its own.
class bulk_store {
public:
  virtual ~bulk_store() = default;

  /// Concurrent requests per host, at most.
  virtual size_t parallel() const = 0;

  /// A content, and its folder in the store.
  struct place {
    std::string content;
    std::string folder;
  };

  using pieces = std::function<void(result<std::vector<shared_bytes>>)>;
  virtual void give_head(place where, pieces done) = 0;

  using bytes = std::function<void(result<shared_bytes>)>;
  virtual void give_chunk(place where, uint64_t chunk, bytes done) = 0;
};

} // namespace millrace
