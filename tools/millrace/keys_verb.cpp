// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/owner.hpp"
#include "millrace/print.hpp"
#include "runtime/bytes.hpp"
#include "runtime/file_descriptor.hpp"
#include "runtime/name.hpp"
#include "transport/keys/key_book.hpp"
#include "transport/keys/key_file.hpp"
#include "transport/message_types.hpp"

namespace millrace {

namespace {

struct keys_options {
  std::string folder;
  std::vector<std::string> names;
  std::string role;
  std::string tenant;
};

/// A folder of keys, locked for one writer.
class key_folder {
public:
  /// Locks the folder. Errors: unavailable; bad_config for a damaged list.
  static result<key_folder> open(const std::string& path) {
    file_descriptor fd{
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!fd || ::flock(fd.get(), LOCK_EX) != 0 || !act_for_owner(fd.get()))
      return error{ec::unavailable,
                   path + ": cannot be opened: " + std::strerror(errno),
                   {}};
    key_folder out;
    out.path_ = path;
    out.lock_ = std::move(fd);
    auto list = allowed_path(path);
    std::error_code none;
    if (!std::filesystem::exists(list, none))
      return out;
    auto allowed = read_allowed_keys(list);
    if (!allowed)
      return allowed.failure();
    out.allowed = std::move(*allowed);
    return out;
  }

  const std::string& path() const { return path_; }

  /// The public key by which clients and operators verify the cluster.
  /// Generates the cluster's key pair if needed.
  result<std::string> cluster_key() const {
    auto file = key_path(path_, cluster_key_name);
    std::error_code none;
    if (!std::filesystem::exists(file, none)) {
      auto pair = make_key_pair();
      key_file made{cluster_key_name, {}, {}, pair.public_key,
                    pair.secret_key,  {}};
      if (auto done = write_key_file(file, made); !done)
        return done.failure();
    }
    auto there = read_key_file(file);
    return there ? result<std::string>{there->public_key} : there.failure();
  }

  result<void> save() const {
    auto text = print_allowed_keys(allowed);
    return write_file(allowed_path(path_), std::as_bytes(std::span{text}));
  }

  allowed_keys allowed;

private:
  std::string path_;
  file_descriptor lock_;
};

int said(const common_options& common, const std::vector<std::string>& names,
         const std::string& text) {
  for (auto& name : names)
    if (!common.json)
      std::cout << name << ": " << text << std::endl;
  if (common.json)
    std::cout << json_text(json{{"names", names}, {"ok", true}}) << std::endl;
  return exit_ok;
}

error no_such_key(const key_folder& keys, const std::string& name) {
  return {ec::bad_request,
          allowed_path(keys.path()) + ": has no key " + shown(name)
            + "; there are "
            + joined(keys.allowed.keys, ", ", [](auto& x) { return x.first; }),
          {}};
}

// -- new ----------------------------------------------------------------------

/// Checks that a key with this name can be made.
result<void> check_new(const key_folder& keys, const std::string& name) {
  if (auto fine = check_name("key", name); !fine)
    return fine;
  if (name == cluster_key_name)
    return error{ec::bad_request,
                 "the name 'cluster' is reserved for the cluster's own keys",
                 {}};
  if (keys.allowed.keys.contains(name))
    return error{ec::conflict,
                 allowed_path(keys.path()) + ": has a key " + shown(name)
                   + " already; 'keys remove' removes it",
                 {}};
  std::error_code none;
  if (auto file = key_path(keys.path(), name);
      std::filesystem::exists(file, none))
    return error{ec::conflict, file + ": exists already", {}};
  return {};
}

/// Makes a key and adds it to the list.
result<void> make_key(key_folder& keys, const std::string& name, role who,
                      const std::string& tenant) {
  auto front = keys.cluster_key();
  if (!front)
    return front.failure();
  auto pair = make_key_pair();
  auto of_node = who == role::node || who == role::controller;
  key_file made{name,
                who,
                tenant,
                pair.public_key,
                pair.secret_key,
                of_node ? std::string{} : *front};
  if (auto done = write_key_file(key_path(keys.path(), name), made); !done)
    return done;
  keys.allowed.keys[name] = {who, tenant, pair.public_key, false};
  return keys.save();
}

int run_new(const keys_options& x, const common_options& common) {
  auto who = from_string<role>(x.role);
  if (!who)
    return wrong_call(common, {ec::bad_request,
                               "--role: expected one of "
                                 + joined(names_of(role{}), ", ",
                                          [](auto y) { return std::string{y}; })
                                 + ", found " + shown(x.role),
                               {}});
  if (!x.tenant.empty() && *who != role::client)
    return wrong_call(common,
                      {ec::bad_request, "--tenant: only a client has one", {}});
  auto tenant = x.tenant;
  if (*who == role::client && tenant.empty())
    tenant = default_tenant;
  if (auto fine = check_name("tenant", tenant); !tenant.empty() && !fine)
    return wrong_call(common, fine.failure());
  std::error_code ignored; // opening the folder gives a better error
  if (std::filesystem::create_directories(x.folder, ignored))
    std::filesystem::permissions(x.folder, std::filesystem::perms::owner_all,
                                 ignored);
  auto keys = key_folder::open(x.folder);
  if (!keys)
    return fail(common, keys.failure());
  for (auto& name : x.names) { // check all names before any key is made
    if (auto fine = check_new(*keys, name); !fine)
      return fail(common, fine.failure());
    if (std::count(x.names.begin(), x.names.end(), name) > 1)
      return fail(common,
                  {ec::bad_request, shown(name) + " is named twice", {}});
  }
  for (auto& name : x.names)
    if (auto made = make_key(*keys, name, *who, tenant); !made)
      return fail(common, made.failure());
  auto status = said(common, x.names,
                     "may connect as " + x.role
                       + (tenant.empty() ? "" : " of tenant " + tenant)
                       + "; its secret is in " + key_path(x.folder, "NAME"));
  if (!common.json)
    std::cout << "A node's host needs allowed.yaml, its own NAME.key and, where"
                 " clients or\noperators connect, cluster.key. A client or"
                 " operator needs its NAME.key.\n"
              << (tenant.empty() || tenant == default_tenant
                    ? ""
                    : "Gateways need an address for clients of " + tenant
                        + ": nodes.NAME.tenants." + tenant + "\n");
  return status;
}

// -- the list -----------------------------------------------------------------

int list_keys(const keys_options& x, const common_options& common) {
  auto allowed = read_allowed_keys(allowed_path(x.folder));
  if (!allowed)
    return fail(common, allowed.failure());
  if (common.json) {
    std::cout << json_text(to_json(*allowed)) << std::endl;
    return exit_ok;
  }
  std::vector<std::vector<std::string>> rows{
    {"NAME", "ROLE", "TENANT", "PUBLIC KEY", ""}};
  for (auto& [name, key] : allowed->keys)
    rows.push_back({name, std::string{to_string(*key.role)}, key.tenant,
                    key.public_key, key.suspended ? "suspended" : ""});
  print_table(rows);
  return exit_ok;
}

/// Changes entries of the list.
template <class F>
int change(const keys_options& x, const common_options& common,
           const std::string& text, F f) {
  auto keys = key_folder::open(x.folder);
  if (!keys)
    return fail(common, keys.failure());
  for (auto& name : x.names) {
    auto i = keys->allowed.keys.find(name);
    if (i == keys->allowed.keys.end())
      return fail(common, no_such_key(*keys, name));
    f(keys->allowed.keys, i);
  }
  if (auto saved = keys->save(); !saved)
    return fail(common, saved.failure());
  return said(common, x.names, text);
}

int run_suspend(const keys_options& x, const common_options& common) {
  return change(x, common, "is suspended",
                [](auto&, auto i) { i->second.suspended = true; });
}

int run_resume(const keys_options& x, const common_options& common) {
  return change(x, common, "may connect again",
                [](auto&, auto i) { i->second.suspended = false; });
}

int run_remove(const keys_options& x, const common_options& common) {
  return change(x, common, "is off the list; its file is still there",
                [](auto& all, auto i) { all.erase(i); });
}

int run_table(const keys_options&, const common_options& common) {
  if (common.json) {
    auto out = json::object();
    for (auto type : message_names())
      for (auto name : names_of(role{}))
        out[std::string{type}][std::string{name}] =
          may_say(*from_string<role>(name), type);
    std::cout << json_text(out) << std::endl;
  } else {
    std::cout << access_reference();
  }
  return exit_ok;
}

} // namespace

void add_keys_verb(CLI::App& app, common_options& common, verb_action& run) {
  auto x = std::make_shared<keys_options>();
  auto* keys =
    app.add_subcommand("keys", "Manage the keys that may connect to a cluster");
  keys->require_subcommand(1);
  auto add = [&](const char* name, const char* text, auto action) {
    return add_subverb(*keys, name, text, common, run,
                       [=, &common] { return action(*x, common); });
  };
  auto in_folder = [&](CLI::App* verb) {
    verb
      ->add_option("folder", x->folder,
                   "Folder of keys, as the config's option keys names it")
      ->required();
    return verb;
  };
  auto named = [&](CLI::App* verb) {
    in_folder(verb)->add_option("name", x->names, "Names of keys")->required();
    return verb;
  };
  auto* made = named(add("new", "Make keys and put them on the list", run_new));
  made
    ->add_option("--role", x->role,
                 "client, viewer, operator, node or controller")
    ->required();
  made->add_option("--tenant", x->tenant,
                   "Tenant of a client; default: default");
  in_folder(add("list", "Print the keys that may connect", list_keys));
  named(add("suspend", "Refuse these keys, within a second, until 'resume'",
            run_suspend));
  named(add("resume", "Let suspended keys connect again", run_resume));
  named(add("remove", "Remove keys from the list", run_remove));
  add("table", "Print which role may send which message", run_table);
}

} // namespace millrace
