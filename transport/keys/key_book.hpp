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

/// Who may connect, by name: the file allowed.yaml.
struct allowed_keys {
  std::map<std::string, allowed_key> keys;
  MILLRACE_FIELDS(allowed_keys, keys)
};

/// Reads and checks the list. Errors: bad_config with file, line and key; for a
/// file, also when others than its owner can write to it.
result<allowed_keys> parse_allowed_keys(const std::string& text,
                                        const std::string& file);
result<allowed_keys> read_allowed_keys(const std::string& path);

/// As its file says it, with a line on top for who opens it.
std::string print_allowed_keys(const allowed_keys& x);

/// Who somebody is.
struct identity {
  std::string name;
  millrace::role role = role::client;
  std::string tenant;
};

/// The list, to be asked per message: whose key is that, may it be used.
class key_book {
public:
  explicit key_book(const allowed_keys& x);

  /// Null when nobody has that key or its use is suspended.
  const identity* find(std::string_view public_key) const;

  /// Whose key that is whose use is suspended; null of any other.
  const identity* find_suspended(std::string_view public_key) const;

  /// A node's public key; null for others, and where it is suspended.
  const std::string* key_of(std::string_view node) const;

private:
  string_map<identity> by_key_;
  string_map<identity> suspended_; ///< by key, too
  string_map<std::string> nodes_;
};

} // namespace millrace
