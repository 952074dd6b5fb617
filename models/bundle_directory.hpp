// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/bundle.hpp"
#include "runtime/time.hpp"

namespace millrace {

/// Bundles that came from elsewhere, on this host's disk so that they need not
/// come again: a folder for each, named by what it is known by. For one node,
/// whose own the directory is. Calls touch the disk; from any thread, but those
/// that change something from one.
class bundle_directory {
public:
  explicit bundle_directory(std::string directory)
    : directory_(std::move(directory)) {}

  struct entry {
    std::string content;
    manifest info;
    nanoseconds idle{0}; ///< since it was written, or opened last
  };

  struct listing {
    std::vector<entry> good;
    size_t broken = 0; ///< that had been one
  };

  /// What is there. Takes away what is none, such as what a crash left half
  /// written; what cannot be looked at now is left.
  listing list();

  /// Whether a bundle's directory is one of these.
  bool is_one(const std::string& directory) const {
    return directory.starts_with(directory_ + "/");
  }

  /// Opens one, all but the weights verified.
  /// Errors: as open_bundle's; bad_config where it is another.
  result<bundle> open(const std::string& content,
                      verify how = verify::all_but_weights,
                      const memory_maker& memory = arriving_file::make) const;

  /// Writes one of which all is there. A crash leaves all of it or nothing that
  /// counts. Errors: unavailable, with the system's reason; then there is
  /// nothing of it.
  result<void> keep(const std::string& content, const bundle& x);

  /// It is gone, for those at least who have it not open.
  void drop(const std::string& content);

private:
  std::string path_of(const std::string& content) const {
    return directory_ + "/" + content;
  }

  std::string directory_;
};

} // namespace millrace
