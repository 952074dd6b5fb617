// SPDX-License-Identifier: Apache-2.0
#include "transport/keys/key_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/bytes.hpp"
#include "runtime/file_descriptor.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

constexpr size_t most_key_bytes = 4096;

/// RFC 32/Z85.
constexpr std::string_view z85 =
  "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
  ".-:+=^!/*?&<>()[]{}@%$#";

/// The secrets printed in zmq_curve(7), which are public.
constexpr std::array printed_secrets{
  std::string_view{"D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs"},
  std::string_view{"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6"}};

error refusal(const std::string& path, const std::string& why) {
  return {ec::bad_config, path + ": " + why, {}};
}

error failed(ec code, const std::string& path, const char* what) {
  return {code, path + ": cannot be " + what + ": " + std::strerror(errno), {}};
}

/// Reads a secret file: one of this user that only its owner may read, one of
/// root that this user's group may read, or, as root, one of any user.
result<std::string> read_secret(const std::string& path) {
  file_descriptor fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  struct stat info;
  if (!fd || ::fstat(fd.get(), &info) != 0)
    return failed(ec::bad_config, path, "opened");
  auto by_root = info.st_uid == 0;
  if (!by_root && info.st_uid != ::geteuid() && ::geteuid() != 0)
    return refusal(path, "belongs to another user");
  auto others = info.st_mode & (by_root ? 0037 : 0077);
  if (others != 0)
    return refusal(path, "others than its owner have access; chmod 600 it");
  std::string out(most_key_bytes, '\0');
  auto n = ::read(fd.get(), out.data(), out.size());
  if (n < 0)
    return failed(ec::bad_config, path, "read");
  out.resize(static_cast<size_t>(n));
  return out;
}

} // namespace

bool is_key(std::string_view text) {
  return text.size() == 40
         && text.find_first_not_of(z85) == std::string_view::npos;
}

std::string key_path(const std::string& folder, const std::string& name) {
  return folder + "/" + name + ".key";
}

std::string allowed_path(const std::string& folder) {
  return folder + "/allowed.yaml";
}

result<key_file> read_key_file(const std::string& path) {
  auto text = read_secret(path);
  if (!text)
    return text.failure();
  key_file out;
  if (auto done = yaml_reader{path}.read(*text, out); !done)
    return done.failure();
  auto& printed = printed_secrets;
  if (std::count(printed.begin(), printed.end(), out.secret_key) != 0)
    return refusal(path, "has a secret key that is printed in a manual");
  for (auto* key : {&out.public_key, &out.secret_key})
    if (!is_key(*key))
      return refusal(path, "expected two keys of 40 characters, public_key and"
                           " secret_key (millrace keys new makes one)");
  if (!out.cluster_key.empty() && !is_key(out.cluster_key))
    return refusal(path, "cluster_key: expected a key of 40 characters");
  return out;
}

result<void> write_key_file(const std::string& path, const key_file& file) {
  file_descriptor fd{::open(
    path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!fd)
    return errno == EEXIST
             ? error{ec::conflict, path + ": is there already", {}}
             : failed(ec::unavailable, path, "created");
  auto text = "# Secret: a process with this file can connect as " + file.name
              + ".\n" + yaml_writer::write(file);
  auto written = ::write(fd.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0) {
    auto why = failed(ec::unavailable, path, "written");
    ::unlink(path.c_str());
    return why;
  }
  return {};
}

} // namespace millrace
