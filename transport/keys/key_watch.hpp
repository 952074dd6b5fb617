// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <sys/stat.h>

#include "runtime/worker_thread.hpp"
#include "transport/keys/key_book.hpp"

namespace millrace {

/// Looks at the list of allowed keys twice a second and tells of changes, on a
/// thread of its own. A list that is damaged or gone changes nothing: that is
/// logged, and the last good one holds.
class key_watch {
public:
  using callback = std::function<void(allowed_keys)>;

  key_watch(std::string path, callback changed);

private:
  void look();

  std::string path_;
  callback changed_;
  struct ::stat seen_ {};
  worker_thread thread_{"keys"};
};

} // namespace millrace
