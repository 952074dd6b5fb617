// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/bundle.hpp"

namespace millrace {

/// The aliases of a model that point at a version.
std::vector<std::string>
pointing_at(const std::map<std::string, uint64_t>& aliases, uint64_t version);

/// A directory of bundles, NAME/VERSION/, with NAME/aliases.yaml beside the
/// versions. Calls touch the disk: for tools and the thread of the cache.
class bundle_store {
public:
  explicit bundle_store(std::string directory)
    : directory_(std::move(directory)) {}

  const std::string& directory() const { return directory_; }

  struct entry {
    bundle content;                   ///< opened by its sizes alone
    std::vector<std::string> aliases; ///< aliases that point at it
  };
  /// All bundles, by name and version. `broken` has an error for each broken
  /// bundle, and for each model with an unreadable alias file.
  struct listing {
    std::vector<entry> good;
    std::vector<error> broken;
  };
  listing list() const;

  /// The version for a number, an alias, or an empty text: then the alias
  /// "default", else the newest version.
  /// Errors: unknown_model, with the known names; bad_config when the aliases
  /// cannot be read.
  result<uint64_t> resolve(const std::string& name,
                           const std::string& version) const;

  /// The directory of the resolved version.
  /// Errors: as resolve.
  result<std::string> find(const std::string& name,
                           const std::string& version) const;

  /// Opens the bundle that resolve() selects.
  /// Errors: as resolve and open_bundle; bad_config when the manifest has
  /// another version than the directory.
  result<bundle> open(const std::string& name, const std::string& version,
                      verify how,
                      const memory_maker& memory = arriving_file::make) const;

  std::vector<uint64_t> versions(const std::string& name) const;

  /// Errors: bad_config when the file cannot be read.
  result<std::map<std::string, uint64_t>>
  aliases(const std::string& name) const;

  /// Points an alias at a version and remembers where it pointed.
  /// Errors: unknown_model; unavailable when the disk refuses.
  result<void> set_alias(const std::string& name, const std::string& alias,
                         uint64_t version);

  /// Points the alias back where it pointed before; returns that version.
  /// Errors: bad_request when there is no earlier one.
  result<uint64_t> rollback(const std::string& name, const std::string& alias);

  /// Whether add() could store that version, as far as can be checked before.
  /// Errors: as add.
  result<void> check_room(const std::string& name, uint64_t version) const;

  /// Stores a bundle: first the files, then the manifest, then one rename of
  /// the directory. The first version also becomes "default".
  /// Errors: conflict when the version exists; unavailable.
  result<std::string> add(const manifest& info,
                          const std::map<std::string, std::string>& files);

private:
  std::string directory_of(const std::string& name, uint64_t version) const;

  std::string directory_;
};

} // namespace millrace
