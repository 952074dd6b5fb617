// SPDX-License-Identifier: Apache-2.0
#include "models/staging_place.hpp"

#include <chrono>
#include <filesystem>

#include <unistd.h>

namespace millrace {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = ".staging-";

void remove_old(const std::string& folder) {
  auto old = fs::file_time_type::clock::now() - std::chrono::hours{24};
  std::error_code failed;
  for (fs::directory_iterator i{folder, failed}, end; !failed && i != end;
       i.increment(failed)) {
    std::error_code unknown;
    auto since = i->last_write_time(unknown);
    if (staging_place::is_one(i->path().filename().string()) && !unknown
        && since < old)
      fs::remove_all(i->path(), unknown);
  }
}

} // namespace

bool staging_place::is_one(const std::string& name) {
  return name.starts_with(prefix);
}

result<staging_place> staging_place::make(const std::string& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  remove_old(folder);
  for (int i = 0; !failed; ++i) {
    auto path = folder + "/" + std::string{prefix} + std::to_string(::getpid())
                + "-" + std::to_string(i);
    if (fs::create_directory(path, failed))
      return staging_place{folder, std::move(path)};
  }
  return error{ec::unavailable,
               folder + ": nothing can be made in it: " + failed.message()};
}

staging_place::~staging_place() {
  std::error_code ignored;
  if (path_.empty())
    return;
  fs::remove_all(path_, ignored);
  fs::remove(folder_, ignored); // fails if the folder is not empty
}

result<void> staging_place::write(const std::string& name,
                                  const_bytes content) {
  auto path = fs::path{path_} / name;
  std::error_code ignored; // then the write below fails too
  fs::create_directories(path.parent_path(), ignored);
  return write_file(path.string(), content);
}

std::error_code staging_place::rename(const std::string& to) {
  std::error_code failed;
  fs::rename(path_, to, failed);
  if (!failed)
    path_.clear();
  return failed;
}

} // namespace millrace
