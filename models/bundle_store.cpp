// SPDX-License-Identifier: Apache-2.0
#include "models/bundle_store.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include <unistd.h>

#include "models/staging_place.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

namespace fs = std::filesystem;

constexpr size_t max_alias_file = 1u << 16;
const std::string alias_name = "aliases.yaml";

struct alias_record {
  uint64_t version = 0;
  std::vector<uint64_t> earlier; ///< oldest first
  MILLRACE_FIELDS(alias_record, version, earlier)
};

struct alias_file {
  std::map<std::string, alias_record> aliases;
  MILLRACE_FIELDS(alias_file, aliases)
};

/// Accepts one notation per number: "7", not "07".
std::optional<uint64_t> version_in(std::string_view text) {
  auto n = number_in<uint64_t>(text);
  return n && text.front() != '0' ? n : std::nullopt;
}

std::string alias_path(const std::string& model_directory) {
  return model_directory + "/" + alias_name;
}

result<alias_file> read_aliases(const std::string& model_directory) {
  alias_file out;
  auto path = alias_path(model_directory);
  std::error_code unreadable;
  if (!fs::exists(path, unreadable) && !unreadable)
    return out;
  auto text = read_file_beneath(model_directory, alias_name, max_alias_file);
  if (!text)
    return text.failure();
  if (auto done = yaml_reader{path}.read(*text, out); !done)
    return done.failure();
  for (auto& [alias, x] : out.aliases)
    if (auto plain = check_plain("alias", alias); !plain)
      return error{ec::bad_config, path + ": " + plain.failure().text, {}};
  return out;
}

result<void> write_aliases(const std::string& model_directory,
                           const alias_file& x) {
  auto text = yaml_writer::write(x);
  return write_file(alias_path(model_directory),
                    std::as_bytes(std::span{text}));
}

/// Names of the subdirectories, sorted; none when the directory is missing.
std::vector<std::string> subdirectories(const std::string& directory) {
  std::vector<std::string> out;
  std::error_code failed; // unreadable entries count as missing
  for (fs::directory_iterator i{directory, failed}, end; !failed && i != end;
       i.increment(failed)) {
    auto name = i->path().filename().string();
    std::error_code no_entry;
    if (i->is_directory(no_entry) && !name.starts_with('.'))
      out.push_back(std::move(name));
  }
  std::sort(out.begin(), out.end());
  return out;
}

result<bundle> open_version(const std::string& directory,
                            const std::string& name, uint64_t version,
                            verify how, const memory_maker& memory) {
  auto x = open_bundle(directory, how, memory);
  if (x && x->info.name != name)
    return error{ec::bad_config, directory + "/model.yaml: names model "
                                   + shown(x->info.name) + ", expected "
                                   + shown(name) + " as its directory does"};
  if (x && x->info.version != version)
    return error{ec::bad_config, directory + "/model.yaml: names version "
                                   + std::to_string(x->info.version)
                                   + ", expected " + std::to_string(version)
                                   + " as its directory does"};
  return x;
}

} // namespace

std::string bundle_store::directory_of(const std::string& name,
                                       uint64_t version) const {
  return directory_ + "/" + name + "/" + std::to_string(version);
}

bundle_store::listing bundle_store::list() const {
  listing out;
  for (auto& name : subdirectories(directory_)) {
    auto known = aliases(name);
    if (!known) {
      out.broken.push_back(std::move(known.failure()));
      continue;
    }
    for (auto version : versions(name)) {
      auto x = open_version(directory_of(name, version), name, version,
                            verify::sizes, arriving_file::make);
      if (!x) {
        out.broken.push_back(std::move(x.failure()));
        continue;
      }
      auto& fresh = out.good.emplace_back();
      fresh.content = std::move(*x);
      fresh.aliases = pointing_at(*known, version);
    }
  }
  return out;
}

result<bundle> bundle_store::open(const std::string& name,
                                  const std::string& version, verify how,
                                  const memory_maker& memory) const {
  auto number = resolve(name, version);
  if (!number)
    return number.failure();
  return open_version(directory_of(name, *number), name, *number, how, memory);
}

std::vector<std::string>
pointing_at(const std::map<std::string, uint64_t>& aliases, uint64_t version) {
  std::vector<std::string> out;
  for (auto& [alias, to] : aliases)
    if (to == version)
      out.push_back(alias);
  return out;
}

std::vector<uint64_t> bundle_store::versions(const std::string& name) const {
  std::vector<uint64_t> out;
  for (auto& x : subdirectories(directory_ + "/" + name))
    if (auto n = version_in(x))
      out.push_back(*n);
  std::sort(out.begin(), out.end());
  return out;
}

result<std::map<std::string, uint64_t>>
bundle_store::aliases(const std::string& name) const {
  auto file = read_aliases(directory_ + "/" + name);
  if (!file)
    return file.failure();
  std::map<std::string, uint64_t> out;
  for (auto& [alias, x] : file->aliases)
    out.emplace(alias, x.version);
  return out;
}

result<uint64_t> bundle_store::resolve(const std::string& name,
                                       const std::string& version) const {
  if (auto fine = check_name("model", name); !fine)
    return fine.failure();
  auto there = versions(name);
  if (there.empty()) {
    auto names = subdirectories(directory_);
    return error{
      ec::unknown_model,
      "no model " + shown(name) + " in " + directory_
        + (names.empty()
             ? std::string{", which holds none"}
             : "; it holds " + joined(names, ", ", [](auto& x) { return x; }))};
  }
  auto wanted = version_in(version);
  if (!wanted) {
    auto known = aliases(name);
    if (!known)
      return known.failure();
    auto i = known->find(version.empty() ? "default" : version);
    if (i != known->end())
      wanted = i->second;
    else if (version.empty())
      wanted = there.back();
  }
  if (!wanted || !std::count(there.begin(), there.end(), *wanted))
    return error{ec::unknown_model,
                 "no version or alias " + shown(version) + " of model '" + name
                   + "'; there are versions " + joined(there, ", ", [](auto n) {
                       return std::to_string(n);
                     })};
  return *wanted;
}

result<std::string> bundle_store::find(const std::string& name,
                                       const std::string& version) const {
  auto number = resolve(name, version);
  if (!number)
    return number.failure();
  return directory_of(name, *number);
}

result<void> bundle_store::set_alias(const std::string& name,
                                     const std::string& alias,
                                     uint64_t version) {
  if (auto fine = check_name("alias", alias); !fine)
    return fine.failure();
  if (version_in(alias))
    return error{ec::bad_request, "an alias may not be a number"};
  if (auto x = resolve(name, std::to_string(version)); !x)
    return x.failure();
  auto file = read_aliases(directory_ + "/" + name);
  if (!file)
    return file.failure();
  auto& entry = file->aliases[alias];
  if (entry.version == version)
    return {};
  if (entry.version != 0)
    entry.earlier.push_back(entry.version);
  entry.version = version;
  return write_aliases(directory_ + "/" + name, *file);
}

result<uint64_t> bundle_store::rollback(const std::string& name,
                                        const std::string& alias) {
  auto file = read_aliases(directory_ + "/" + name);
  if (!file)
    return file.failure();
  auto i = file->aliases.find(alias);
  if (i == file->aliases.end())
    return error{
      ec::bad_request,
      "model '" + name + "' has no alias " + shown(alias) + "; "
        + (file->aliases.empty() ? "it has none" : "there are ")
        + joined(file->aliases, ", ", [](auto& x) { return x.first; })};
  if (i->second.earlier.empty())
    return error{ec::bad_request, "alias " + shown(alias) + " of model '" + name
                                    + "' has no earlier version"};
  i->second.version = i->second.earlier.back();
  i->second.earlier.pop_back();
  auto version = i->second.version;
  if (auto done = write_aliases(directory_ + "/" + name, *file); !done)
    return done.failure();
  return version;
}

result<void> bundle_store::check_room(const std::string& name,
                                      uint64_t version) const {
  std::error_code failed;
  if (auto target = directory_of(name, version); fs::exists(target, failed))
    return error{ec::conflict, target + " exists already"};
  // The nearest existing directory above has to be writable.
  auto at = fs::path{directory_} / name;
  while (!fs::exists(at, failed) && at.has_parent_path()
         && at != at.parent_path())
    at = at.parent_path();
  if (fs::exists(at, failed) && !fs::is_directory(at, failed))
    return error{ec::unavailable, at.string() + ": is no directory"};
  if (fs::exists(at, failed) && ::access(at.c_str(), W_OK | X_OK) != 0)
    return error{ec::unavailable, at.string() + ": nothing can be written: "
                                    + std::strerror(errno)};
  return {};
}

result<std::string>
bundle_store::add(const manifest& info,
                  const std::map<std::string, std::string>& files) {
  auto model = directory_ + "/" + info.name;
  auto target = model + "/" + std::to_string(info.version);
  if (auto room = check_room(info.name, info.version); !room)
    return room.failure();
  auto place = staging_place::make(model);
  if (!place)
    return place.failure();
  auto all = files;
  all[manifest_file] = print_manifest(info);
  for (auto& [file, content] : all)
    if (auto done = place->write(file, std::as_bytes(std::span{content}));
        !done)
      return done.failure();
  auto failed = place->rename(target);
  if (failed == std::errc::directory_not_empty
      || failed == std::errc::file_exists)
    return error{ec::conflict, target + " exists already"};
  if (failed)
    return error{ec::unavailable,
                 target + ": cannot be created: " + failed.message()};
  auto known = aliases(info.name);
  if (!known)
    return known.failure();
  if (!known->contains("default"))
    if (auto done = set_alias(info.name, "default", info.version); !done)
      return done.failure();
  return target;
}

} // namespace millrace
