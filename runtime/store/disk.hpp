// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/error.hpp"

namespace millrace {

/// A directory of files, as the durable stores need it. Calls block. Written
/// bytes survive a power loss only after sync has returned; created and renamed
/// files only after sync_names has returned.
/// Errors: unavailable, with the path and the system's reason.
class disk {
public:
  virtual ~disk() = default;

  /// The path of a file, for messages.
  virtual std::string path_of(const std::string& name) const = 0;

  virtual result<bool> has(const std::string& name) = 0;

  /// Reads a whole file; nullopt when the file does not exist.
  /// Errors: too_large for a file over `most` bytes.
  virtual result<std::optional<std::string>> read(const std::string& name,
                                                  size_t most) = 0;

  /// Creates an empty file, or truncates an existing one.
  virtual result<void> create(const std::string& name) = 0;

  /// Appends to a file that was created or read through this object. On
  /// failure, a part of the bytes may have been written.
  virtual result<void> append(const std::string& name,
                              std::string_view bytes) = 0;

  virtual result<void> sync(const std::string& name) = 0;

  /// Renames a file; replaces an existing file with the new name.
  virtual result<void> rename(const std::string& from,
                              const std::string& to) = 0;

  virtual result<void> sync_names() = 0;
};

/// Opens a directory of this host, creates it if necessary, and locks it for
/// this process. Only the owner can access the files.
/// Errors: unavailable as above; bad_config when another process holds the
/// lock.
result<std::unique_ptr<disk>> open_directory(const std::string& path);

/// Writes a whole file and syncs it. On failure the file is truncated to zero
/// bytes, which frees space on a full disk.
result<void> write_whole(disk& where, const std::string& name,
                         std::string_view bytes);

/// Wraps a disk. Calls the function, on the thread of the disk call, for each
/// refused change and for each sync.
std::unique_ptr<disk>
watched(std::unique_ptr<disk> inner,
        std::function<void(const result<void>&)> how_it_went);

} // namespace millrace
