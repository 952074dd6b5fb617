// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "runtime/store/disk.hpp"

namespace millrace::test {

/// A folder that is removed after the test.
class temporary_directory {
public:
  temporary_directory() {
    auto name =
      (std::filesystem::temp_directory_path() / "millrace-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  temporary_directory(const temporary_directory&) = delete;
  temporary_directory& operator=(const temporary_directory&) = delete;
  ~temporary_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }

private:
  std::string path_;
};

/// Opens a directory as a node does.
inline std::unique_ptr<disk> disk_at(const std::string& path) {
  return std::move(*open_directory(path));
}

} // namespace millrace::test
