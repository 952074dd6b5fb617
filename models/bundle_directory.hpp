// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/bundle.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// The node's disk cache of bundles from elsewhere: a folder for each bundle,
/// named by its content id. Each directory belongs to one node. Calls touch the
/// disk. Any thread may read; only one thread may change entries.
class bundle_directory {
public:
  explicit bundle_directory(std::string directory)
    : directory_(std::move(directory)) {}

  struct entry {
    std::string content;
    manifest info;
    nanoseconds idle{0}; ///< since it was written, or last opened
  };

  struct listing {
    std::vector<entry> good;
    size_t broken = 0; ///< folders that held a bundle and were removed
  };

  /// Lists all bundles. Removes folders that are no bundle, such as
  /// half-written ones after a crash; folders that cannot be read now are kept.
  listing list();

  /// Whether `directory` lies in this cache.
  bool is_one(const std::string& directory) const {
    return directory.starts_with(directory_ + "/");
  }

  /// Opens a bundle; by default all but the weights is verified.
  /// Errors: as open_bundle; bad_config where the folder holds another bundle.
  result<bundle> open(const std::string& content,
                      verify how = verify::all_but_weights,
                      const memory_maker& memory = arriving_file::make) const;

  /// Writes a complete bundle. A crash leaves all of the bundle or a folder
  /// that list() removes.
  /// Errors: unavailable, with the system's reason; then nothing is left.
  result<void> keep(const std::string& content, const bundle& opened);

  /// Removes a bundle. Processes that have it open can still read it.
  void drop(const std::string& content);

private:
  std::string path_of(const std::string& content) const {
    return directory_ + "/" + content;
  }

  std::string directory_;
};

} // namespace millrace
