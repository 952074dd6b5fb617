// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/error.hpp"

namespace millrace {

/// A directory of files as what keeps durable facts needs it. Calls block.
/// What was written survives a loss of power only once sync returned, and what
/// files there are only once sync_names did.
/// Errors: unavailable, with the path and the system's reason.
class disk {
public:
  virtual ~disk() = default;

  /// A file's name as a person would look for it.
  virtual std::string path_of(const std::string& name) const = 0;

  virtual result<bool> has(const std::string& name) = 0;

  /// A whole file; none when there is none of that name.
  /// Errors: too_large over `most` bytes.
  virtual result<std::optional<std::string>> read(const std::string& name,
                                                  size_t most) = 0;

  /// Begins a file anew, empty.
  virtual result<void> create(const std::string& name) = 0;

  /// Adds to the end of a file that was created or read here. When it fails,
  /// some of the bytes may be there.
  virtual result<void> append(const std::string& name,
                              std::string_view bytes) = 0;

  virtual result<void> sync(const std::string& name) = 0;

  /// Gives a file another name; one that had it is gone.
  virtual result<void> rename(const std::string& from,
                              const std::string& to) = 0;

  virtual result<void> sync_names() = 0;
};

/// A directory of this host, which is made if need be, for this process alone
/// as long as it has it. Files are their owner's alone.
/// Errors: unavailable as above; bad_config when another process has it.
result<std::unique_ptr<disk>> open_directory(const std::string& path);

/// Writes a file as a whole and syncs it. One that was not written is left
/// without bytes: a disk that is full has no room for it.
result<void> write_whole(disk& where, const std::string& name,
                         std::string_view bytes);

/// That disk, of which somebody hears when it refuses a change and when it has
/// synced one, on the thread that made it.
std::unique_ptr<disk>
watched(std::unique_ptr<disk> x,
        std::function<void(const result<void>&)> how_it_went);

} // namespace millrace
