// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <sys/stat.h>

#include "runtime/worker_thread.hpp"
#include "transport/keys/key_book.hpp"

namespace millrace {

/// Looks at the list of allowed keys twice a second and tells of changes, on a
/// thread of its own. A list that is damaged or gone is an error to tell of: it
/// is also logged, and the last good one holds.
class key_watch {
public:
  using callback = std::function<void(result<allowed_keys>)>;

  key_watch(std::string path, callback changed);

private:
  void look();

  std::string path_;
  callback changed_;
  struct ::stat seen_ {};
  std::string wrong_; ///< with the list; what mends it may not touch the list
  worker_thread thread_{"keys"};
};

} // namespace millrace
