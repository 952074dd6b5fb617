// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "transport/access.hpp"
#include "transport/keys/key_pair.hpp"

namespace millrace {

/// A secret key as it lies on disk: who has this file is `name` to the
/// cluster. Of the cluster's own pair, which clients and operators know it by,
/// the role is empty.
struct key_file {
  std::string name;
  std::optional<millrace::role> role;
  std::string tenant; ///< of a client
  std::string public_key;
  std::string secret_key;
  std::string cluster_key; ///< a client's and operator's: whom to talk to
  MILLRACE_FIELDS(key_file, name, role, tenant, public_key, secret_key,
                  cluster_key)

  key_pair pair() const { return {public_key, secret_key}; }
};

/// Whether it is 40 characters of Z85.
bool is_key(std::string_view x);

/// The tenant of clients that are of no other.
constexpr auto default_tenant = "default";

/// The name of a key's file, and of the list of allowed ones, in a folder.
std::string key_path(const std::string& folder, const std::string& name);
std::string allowed_path(const std::string& folder);

/// The name of the cluster's own pair.
constexpr auto cluster_key_name = "cluster";

/// Errors: bad_config when the file is not there, others than its owner can
/// read it (a group may where root owns it), it is another user's and this one
/// is not root, it is no key file, or the pair is one of those printed in
/// manuals.
result<key_file> read_key_file(const std::string& path);

/// Writes it for its owner's eyes only; what is there is left as it is.
/// Errors: conflict when there is one; unavailable.
result<void> write_key_file(const std::string& path, const key_file& x);

} // namespace millrace
