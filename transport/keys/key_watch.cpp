// SPDX-License-Identifier: Apache-2.0
#include "transport/keys/key_watch.hpp"

#include "runtime/log.hpp"

namespace millrace {

namespace {

/// The change time also covers changes of owner and permissions.
bool same(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_size == b.st_size
         && a.st_ctim.tv_sec == b.st_ctim.tv_sec
         && a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

} // namespace

key_watch::key_watch(std::string path, callback changed)
  : path_(std::move(path)),
    changed_(std::move(changed)) {
  thread_.repeat(500ms, [this] { look(); });
}

void key_watch::look() {
  struct stat now {};
  static_cast<void>(::stat(path_.c_str(), &now)); // zeros if missing
  if (same(now, seen_) && wrong_.empty())
    return;
  seen_ = now;
  auto x = read_allowed_keys(path_);
  auto wrong = x ? std::string{} : x.failure().text;
  if (!x && wrong == wrong_)
    return;
  wrong_ = std::move(wrong);
  if (!x)
    log_event(log_level::error, "node", "allowed_keys_unreadable",
              {{"error", x.failure().text}});
  changed_(std::move(x));
}

} // namespace millrace
