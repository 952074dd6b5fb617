// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include "runtime/bytes.hpp"

namespace millrace {

/// A private directory in which a bundle is written. The destructor removes it
/// unless it was renamed.
class staging_place {
public:
  /// Creates one in `folder`, which is created too if it is missing and removed
  /// with this if it is empty. Removes places that killed processes left a day
  /// ago.
  /// Errors: unavailable, with the system's reason.
  static result<staging_place> make(const std::string& folder);

  /// Whether an entry of a folder is a staging place.
  static bool is_one(const std::string& name);

  staging_place(staging_place&& other) noexcept
    : folder_(std::move(other.folder_)),
      path_(std::exchange(other.path_, {})) {}
  staging_place& operator=(staging_place&&) = delete;
  ~staging_place();

  /// Writes a file of the bundle atomically; `name` is relative.
  /// Errors: unavailable, with the path and the system's reason.
  result<void> write(const std::string& name, const_bytes content);

  std::error_code rename(const std::string& to);

private:
  staging_place(std::string folder, std::string path)
    : folder_(std::move(folder)),
      path_(std::move(path)) {}

  std::string folder_;
  std::string path_;
};

} // namespace millrace
