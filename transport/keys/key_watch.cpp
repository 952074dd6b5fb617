// SPDX-License-Identifier: Apache-2.0
#include "transport/keys/key_watch.hpp"

#include "runtime/log.hpp"

namespace millrace {

namespace {

bool same(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_size == b.st_size
         && a.st_mtim.tv_sec == b.st_mtim.tv_sec
         && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

} // namespace

key_watch::key_watch(std::string path, callback changed)
  : path_(std::move(path)),
    changed_(std::move(changed)) {
  thread_.repeat(500ms, [this] { look(); });
}

void key_watch::look() {
  struct stat now {};
  static_cast<void>(::stat(path_.c_str(), &now)); // zeros when it is gone
  if (same(now, seen_))
    return;
  seen_ = now;
  if (auto x = read_allowed_keys(path_))
    changed_(std::move(*x));
  else
    log_event(log_level::error, "node", "allowed_keys_unreadable",
              {{"error", x.failure().text}});
}

} // namespace millrace
