// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <system_error>
#include <utility>

#include "runtime/bytes.hpp"

namespace millrace {

/// A directory of one's own in which a bundle comes about; it is gone with this
/// unless it was renamed.
class staging_place {
public:
  /// One in a folder, which is made where there is none, and is gone with this
  /// if nothing else is in it. Takes away what killed processes have left there
  /// for a day. Errors: unavailable, with the system's reason.
  static result<staging_place> make(const std::string& folder);

  /// Whether an entry of a folder is such a place.
  static bool is_one(const std::string& name);

  staging_place(staging_place&& x) noexcept
    : folder_(std::move(x.folder_)),
      path_(std::exchange(x.path_, {})) {}
  staging_place& operator=(staging_place&&) = delete;
  ~staging_place();

  /// Writes a file of it, so that a crash leaves none or all of that; `name` is
  /// relative. Errors: unavailable, with the path and the system's reason.
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
