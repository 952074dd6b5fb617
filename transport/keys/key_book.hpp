// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "runtime/error.hpp"
#include "runtime/fields.hpp"
#include "runtime/string_map.hpp"
#include "transport/access.hpp"

namespace millrace {

/// An entry of the list of keys that may connect.
struct allowed_key {
  std::optional<millrace::role> role;
  std::string tenant; ///< of a client; default: "default"
  std::string public_key;
  bool suspended = false;
  MILLRACE_FIELDS(allowed_key, role, tenant, public_key, suspended)
};

/// The allowed keys by name: the file allowed.yaml.
struct allowed_keys {
  std::map<std::string, allowed_key> keys;
  MILLRACE_FIELDS(allowed_keys, keys)
};

/// Reads and checks the list. Errors: bad_config with file, line and key; for a
/// file, also if users other than its owner can write to it.
result<allowed_keys> parse_allowed_keys(const std::string& text,
                                        const std::string& file);
result<allowed_keys> read_allowed_keys(const std::string& path);

/// The text of the file, with a comment for its reader.
std::string print_allowed_keys(const allowed_keys& keys);

/// Name, role and tenant of the owner of a key.
struct identity {
  std::string name;
  millrace::role role = role::client;
  std::string tenant;
};

/// The list as a lookup table, used for each message.
class key_book {
public:
  explicit key_book(const allowed_keys& keys);

  /// Null for an unknown or suspended key.
  const identity* find(std::string_view public_key) const;

  /// The owner of a suspended key; null for other keys.
  const identity* find_suspended(std::string_view public_key) const;

  /// A node's public key; null for other names, and if it is suspended.
  const std::string* key_of(std::string_view node) const;

private:
  string_map<identity> by_key_;
  string_map<identity> suspended_; ///< by key
  string_map<std::string> nodes_;
};

} // namespace millrace
