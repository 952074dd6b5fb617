// SPDX-License-Identifier: Apache-2.0
#include "models/kept_bundles.hpp"

#include <algorithm>
#include <filesystem>

#include "models/travelling_bundle.hpp"
#include "runtime/hash.hpp"

namespace millrace {

namespace {

namespace fs = std::filesystem;

/// Of a folder that is being written.
constexpr auto unfinished = ".new";

result<void> write_part(const std::string& directory, const std::string& name,
                        const_bytes content) {
  auto path = fs::path{directory} / name;
  std::error_code failed;
  fs::create_directories(path.parent_path(), failed);
  if (failed)
    return error{ec::unavailable,
                 path.parent_path().string()
                   + ": cannot be made: " + failed.message(),
                 {}};
  return write_file(path.string(), content);
}

/// Everything of it; the manifest last, without which there is no bundle.
result<void> write_bundle(const std::string& directory, const bundle& x) {
  for (size_t i = 0; i < x.code.size(); ++i)
    if (auto done =
          write_part(directory, x.info.layers[i].code, x.code[i].view());
        !done)
      return done;
  if (auto& file = x.weights_file) {
    auto& name = x.info.weights.file;
    if (auto done = write_part(directory, name, file->content().view()); !done)
      return done;
    auto list = file->list().text();
    if (auto done = write_part(directory, name + chunk_list_suffix,
                               std::as_bytes(std::span{list}));
        !done)
      return done;
  }
  return write_part(directory, manifest_file, std::as_bytes(std::span{x.text}));
}

} // namespace

std::vector<kept_bundles::entry> kept_bundles::list() {
  std::vector<std::pair<fs::file_time_type, entry>> found;
  std::vector<fs::path> wrong;
  std::error_code failed;
  for (fs::directory_iterator i{directory_, failed}, end; !failed && i != end;
       i.increment(failed)) {
    auto content = i->path().filename().string();
    auto x = open_bundle(i->path().string(), verify::sizes);
    std::error_code unknown;
    auto since = i->last_write_time(unknown);
    if (x && travelling::id_of(*x) == content)
      found.emplace_back(since, entry{content, std::move(*x)});
    else if (content.ends_with(unfinished) || sha256_from_hex(content))
      wrong.push_back(i->path());
  }
  for (auto& path : wrong)
    fs::remove_all(path, failed);
  std::stable_sort(found.begin(), found.end(),
                   [](auto& x, auto& y) { return x.first < y.first; });
  std::vector<entry> out;
  for (auto& [since, x] : found)
    out.push_back(std::move(x));
  return out;
}

result<bundle> kept_bundles::open(const std::string& content) const {
  auto x = open_bundle(path_of(content), verify::all_but_weights);
  if (x && travelling::id_of(*x) != content)
    return error{
      ec::bad_config, path_of(content) + ": its manifest is another's", {}};
  return x;
}

result<void> kept_bundles::keep(const std::string& content, const bundle& x) {
  auto to = path_of(content);
  auto from = to + unfinished;
  std::error_code failed;
  fs::remove_all(from, failed);
  auto done = write_bundle(from, x);
  if (done) {
    fs::remove_all(to, failed);
    fs::rename(from, to, failed);
    if (failed)
      done = error{
        ec::unavailable, to + ": cannot be created: " + failed.message(), {}};
  }
  if (!done)
    fs::remove_all(from, failed);
  return done;
}

void kept_bundles::drop(const std::string& content) {
  std::error_code ignored;
  fs::remove_all(path_of(content), ignored);
}

} // namespace millrace
