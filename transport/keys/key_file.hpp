// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "transport/access.hpp"
#include "transport/keys/key_pair.hpp"

namespace millrace {

/// A secret key as stored on disk: a process with this file can connect as
/// `name`. The role is empty for the cluster's own pair, by which clients and
/// operators verify the cluster.
struct key_file {
  std::string name;
  std::optional<millrace::role> role;
  std::string tenant; ///< of a client's key
  std::string public_key;
  std::string secret_key;
  /// For clients and operators: the cluster's public key.
  std::string cluster_key;
  MILLRACE_FIELDS(key_file, name, role, tenant, public_key, secret_key,
                  cluster_key)

  key_pair pair() const { return {public_key, secret_key}; }
};

/// Whether a text is 40 characters of Z85.
bool is_key(std::string_view text);

/// The tenant of clients without another tenant.
constexpr auto default_tenant = "default";

/// Paths in a folder: of a key's file, and of the list of allowed keys.
std::string key_path(const std::string& folder, const std::string& name);
std::string allowed_path(const std::string& folder);

/// The name of the cluster's own pair.
constexpr auto cluster_key_name = "cluster";

/// Errors: bad_config if the file is missing, is readable by users other than
/// its owner (its group may read it if root owns it), belongs to another user
/// while this process is not root's, is no key file, or has a pair printed in a
/// manual.
result<key_file> read_key_file(const std::string& path);

/// Writes a file that only its owner can read; never replaces a file. Errors:
/// conflict if the file exists; unavailable.
result<void> write_key_file(const std::string& path, const key_file& file);

} // namespace millrace
