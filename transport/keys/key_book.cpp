// SPDX-License-Identifier: Apache-2.0
#include "transport/keys/key_book.hpp"

#include <filesystem>

#include <sys/stat.h>

#include "runtime/bytes.hpp"
#include "runtime/name.hpp"
#include "runtime/yaml_record.hpp"
#include "transport/keys/key_file.hpp"

namespace millrace {

namespace {

constexpr size_t most_book_bytes = 4u << 20;

/// Why an entry is invalid; empty for a valid entry.
std::string objection(const std::string& name, const allowed_key& x) {
  if (auto fine = check_name("key", name); !fine)
    return fine.failure().text;
  if (!x.role)
    return "has no role (expected one of "
           + joined(names_of(role{}), ", ",
                    [](auto y) { return std::string{y}; })
           + ")";
  if (!is_key(x.public_key))
    return "public_key: expected 40 characters of Z85, found "
           + shown(x.public_key);
  if (*x.role != role::client && !x.tenant.empty())
    return "only a client has a tenant";
  if (x.tenant.empty())
    return {};
  auto fine = check_name("tenant", x.tenant);
  return fine ? std::string{} : fine.failure().text;
}

} // namespace

result<allowed_keys> parse_allowed_keys(const std::string& text,
                                        const std::string& file) {
  allowed_keys out;
  yaml_reader reader{file};
  if (auto done = reader.read(text, out); !done)
    return done.failure();
  std::map<std::string, std::string> owners;
  for (auto& [name, x] : out.keys) {
    auto why = objection(name, x);
    auto [owner, fresh] = owners.emplace(x.public_key, name);
    if (why.empty() && !fresh)
      why = "has the key of " + owner->second;
    if (!why.empty())
      return error{
        ec::bad_config, reader.where("keys." + name) + std::move(why), {}};
    if (x.role == role::client && x.tenant.empty())
      x.tenant = default_tenant;
  }
  return out;
}

result<allowed_keys> read_allowed_keys(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && (info.st_mode & 0022) != 0)
    return error{ec::bad_config,
                 path + ": others than its owner can write to it; chmod 644 it",
                 {}};
  auto folder = std::filesystem::path{path}.parent_path().string();
  auto open = ::stat(folder.empty() ? "." : folder.c_str(), &info) == 0
              && (info.st_mode & 0022) != 0 && (info.st_mode & S_ISVTX) == 0;
  if (open) // a user with write access could replace the list
    return error{ec::bad_config,
                 folder
                   + ": others than its owner can write to it; chmod 755 it",
                 {}};
  auto text = read_file(path, most_book_bytes);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  return parse_allowed_keys(*text, path);
}

std::string print_allowed_keys(const allowed_keys& keys) {
  return "# Keys that may connect. Processes read this file twice a second;\n"
         "# `millrace keys` writes it.\n"
         + yaml_writer::write(keys);
}

key_book::key_book(const allowed_keys& xs) {
  for (auto& [name, x] : xs.keys) {
    auto& whose = x.suspended ? suspended_ : by_key_;
    whose.emplace(x.public_key, identity{name, *x.role, x.tenant});
    if (x.suspended)
      continue;
    if (x.role == role::node || x.role == role::controller)
      nodes_.emplace(name, x.public_key);
  }
}

const identity* key_book::find(std::string_view public_key) const {
  auto i = by_key_.find(public_key);
  return i == by_key_.end() ? nullptr : &i->second;
}

const identity* key_book::find_suspended(std::string_view public_key) const {
  auto i = suspended_.find(public_key);
  return i == suspended_.end() ? nullptr : &i->second;
}

const std::string* key_book::key_of(std::string_view node) const {
  auto i = nodes_.find(node);
  return i == nodes_.end() ? nullptr : &i->second;
}

} // namespace millrace
