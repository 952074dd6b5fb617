// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <sys/stat.h>

#include "runtime/worker_thread.hpp"
#include "transport/keys/key_book.hpp"

namespace millrace {

/// Checks the list of allowed keys twice a second, on a thread of its own, and
/// reports changes. A damaged or missing list is reported as an error and
/// logged; the last good list stays in force.
class key_watch {
public:
  using callback = std::function<void(result<allowed_keys>)>;

  key_watch(std::string path, callback changed);

private:
  void look();

  std::string path_;
  callback changed_;
  struct ::stat seen_ {};
  /// Error of the list; it is read again even if its file has not changed.
  std::string wrong_;
  worker_thread thread_{"keys"};
};

} // namespace millrace
