// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/bytes.hpp"

namespace millrace {

/// A source that is no host, but keeps contents for all of them. It gives what
/// a host does: a head, then chunks (see bulk.hpp). Any thread may ask; calls
/// back on a thread of its own.
class bulk_store {
public:
  virtual ~bulk_store() = default;

  /// How much may be asked of it at a time.
  virtual size_t parallel() const = 0;

  /// A content, and the folder of the store that it is in.
  struct place {
    std::string content;
    std::string folder;
  };

  using pieces = std::function<void(result<std::vector<shared_bytes>>)>;
  virtual void give_head(place x, pieces done) = 0;

  using bytes = std::function<void(result<shared_bytes>)>;
  virtual void give_chunk(place x, uint64_t chunk, bytes done) = 0;
};

} // namespace millrace
