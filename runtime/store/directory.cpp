// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "runtime/file_descriptor.hpp"
#include "runtime/store/disk.hpp"

namespace millrace {

namespace {

class directory : public disk {
public:
  directory(std::string path, file_descriptor fd, file_descriptor lock)
    : path_(std::move(path)),
      fd_(std::move(fd)),
      lock_(std::move(lock)) {}

  std::string path_of(const std::string& name) const override {
    return path_ + "/" + name;
  }

  result<bool> has(const std::string& name) override {
    struct stat info;
    if (::fstatat(fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
      return true;
    if (errno == ENOENT)
      return false;
    return failed(name, "looked at");
  }

  result<std::optional<std::string>> read(const std::string& name,
                                          size_t most) override {
    auto x = open(name, O_RDWR | O_APPEND);
    if (!x && errno == ENOENT)
      return std::optional<std::string>{};
    if (!x)
      return failed(name, "opened");
    struct stat info;
    if (::fstat(x.get(), &info) != 0 || !S_ISREG(info.st_mode))
      return error{
        ec::unavailable, path_of(name) + ": is not a regular file", {}};
    std::string out;
    char part[65536];
    for (;;) {
      auto n = ::read(x.get(), part, sizeof part);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return failed(name, "read");
      if (n == 0)
        break;
      out.append(part, static_cast<size_t>(n));
      if (out.size() > most)
        return error{ec::too_large,
                     path_of(name) + ": expected at most "
                       + std::to_string(most) + " bytes, found more",
                     {}};
    }
    open_[name] = std::move(x);
    return std::optional{std::move(out)};
  }

  result<void> create(const std::string& name) override {
    auto x = open(name, O_RDWR | O_APPEND | O_CREAT | O_TRUNC);
    if (!x)
      return failed(name, "created");
    open_[name] = std::move(x);
    return {};
  }

  result<void> append(const std::string& name,
                      std::string_view bytes) override {
    auto fd = open_.at(name).get();
    while (!bytes.empty()) {
      auto n = ::write(fd, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return failed(name, "written");
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return {};
  }

  result<void> sync(const std::string& name) override {
    // Sync through the descriptor that wrote: another descriptor might not get
    // the write error.
    if (::fsync(open_.at(name).get()) != 0)
      return failed(name, "synced");
    return {};
  }

  result<void> rename(const std::string& from, const std::string& to) override {
    if (::renameat(fd_.get(), from.c_str(), fd_.get(), to.c_str()) != 0)
      return failed(from, "renamed");
    open_.erase(to);
    if (auto x = open_.extract(from)) {
      x.key() = to;
      open_.insert(std::move(x));
    }
    return {};
  }

  result<void> sync_names() override {
    if (::fsync(fd_.get()) != 0)
      return failed(".", "synced");
    return {};
  }

private:
  file_descriptor open(const std::string& name, int flags) const {
    return file_descriptor{
      ::openat(fd_.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0600)};
  }

  error failed(const std::string& name, const char* what) const {
    return {ec::unavailable,
            path_of(name) + ": cannot be " + what + ": " + std::strerror(errno),
            {}};
  }

  std::string path_;
  file_descriptor fd_;
  file_descriptor lock_;
  std::map<std::string, file_descriptor> open_;
};

} // namespace

result<std::unique_ptr<disk>> open_directory(const std::string& path) {
  std::error_code ignored; // the open below gives a better error
  std::filesystem::create_directories(path, ignored);
  file_descriptor fd{::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (!fd)
    return error{ec::unavailable,
                 path + ": cannot be opened: " + std::strerror(errno),
                 {}};
  file_descriptor lock{
    ::openat(fd.get(), "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock)
    return error{ec::unavailable,
                 path + "/lock: cannot be created: " + std::strerror(errno),
                 {}};
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return error{ec::bad_config,
                 path + ": another process uses it as its data directory",
                 {}};
  return std::unique_ptr<disk>{
    std::make_unique<directory>(path, std::move(fd), std::move(lock))};
}

} // namespace millrace
