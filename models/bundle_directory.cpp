// SPDX-License-Identifier: Apache-2.0
#include "models/bundle_directory.hpp"

#include <filesystem>

#include "models/staging_place.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/hash.hpp"
#include "runtime/log.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

namespace fs = std::filesystem;

/// Writes all files of a bundle but its samples.
result<void> write_bundle(staging_place& to, const bundle& x) {
  auto pieces = travelling::pieces_of(x);
  if (!pieces)
    return pieces.failure();
  auto& weights = x.info.weights.file;
  std::vector<std::pair<std::string, const_bytes>> files{
    {manifest_file, (*pieces)[0].view()}};
  if (!(*pieces)[1].empty())
    files.emplace_back(weights + chunk_list_suffix, (*pieces)[1].view());
  for (size_t i = 0; i < x.info.layers.size(); ++i)
    files.emplace_back(x.info.layers[i].code, (*pieces)[i + 2].view());
  if (x.weights_file)
    files.emplace_back(weights, x.weights_file->content().view());
  for (auto& [name, content] : files)
    if (auto done = to.write(name, content); !done)
      return done;
  return {};
}

/// Whether a folder that could not be opened is certainly no bundle.
bool is_none(const std::string& path, const error& why) {
  std::error_code failed;
  return why.code == ec::bad_config
         || (!fs::exists(path + "/" + manifest_file, failed) && !failed);
}

} // namespace

bundle_directory::listing bundle_directory::list() {
  listing out;
  std::vector<std::string> wrong;
  std::error_code failed;
  auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator i{directory_, failed}, end; !failed && i != end;
       i.increment(failed)) {
    auto content = i->path().filename().string();
    if (staging_place::is_one(content)) {
      wrong.push_back(content);
      continue;
    }
    if (!sha256_from_hex(content))
      continue; // not a folder of the cache
    auto x = open_bundle(path_of(content), verify::sizes);
    std::error_code unknown;
    auto since = i->last_write_time(unknown);
    if (x && travelling::id_of(*x) == content)
      out.good.push_back(
        {content, std::move(x->info), unknown ? 0ns : now - since});
    else if (x || is_none(path_of(content), x.failure())) {
      log_event(log_level::error, "cache", "dropped",
                {{"content", content},
                 {"error", x ? "its manifest is that of another bundle"
                             : x.failure().text}});
      wrong.push_back(content);
      ++out.broken;
    }
  }
  for (auto& name : wrong)
    drop(name);
  return out;
}

result<bundle> bundle_directory::open(const std::string& content, verify how,
                                      const memory_maker& memory) const {
  auto x = open_bundle(path_of(content), how, memory);
  if (x && travelling::id_of(*x) != content)
    return error{ec::bad_config,
                 path_of(content) + ": its manifest is that of another bundle",
                 {}};
  std::error_code ignored;
  fs::last_write_time(path_of(content), fs::file_time_type::clock::now(),
                      ignored);
  return x;
}

result<void> bundle_directory::keep(const std::string& content,
                                    const bundle& opened) {
  auto place = staging_place::make(directory_);
  if (!place)
    return place.failure();
  std::error_code failed, unknown;
  auto bytes = opened.weights_file ? opened.weights_file->bytes() : 0;
  if (auto room = fs::space(directory_, unknown);
      !unknown && room.available < bytes)
    return error{ec::unavailable,
                 directory_ + ": no space for " + format_bytes(bytes) + ", "
                   + format_bytes(room.available) + " are free",
                 {}};
  fs::permissions(directory_, fs::perms::owner_all, failed);
  if (auto done = write_bundle(*place, opened); !done)
    return done;
  drop(content);
  if (failed = place->rename(path_of(content)); failed)
    return error{ec::unavailable,
                 path_of(content) + ": cannot be created: " + failed.message(),
                 {}};
  return {};
}

void bundle_directory::drop(const std::string& content) {
  std::error_code ignored;
  fs::remove_all(path_of(content), ignored);
}

} // namespace millrace
