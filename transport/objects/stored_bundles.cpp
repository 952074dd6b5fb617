// SPDX-License-Identifier: Apache-2.0
#include "transport/objects/stored_bundles.hpp"

#include <algorithm>

#include "models/chunks.hpp"
#include "models/travelling_bundle.hpp"
#include "runtime/hash.hpp"

namespace millrace {

namespace {

/// Manifests in memory, at most.
constexpr size_t most_manifests = 16;

/// Files of one bundle that are being read. For the store's thread.
struct gathering {
  std::vector<shared_bytes> files;
  size_t missing = 0;
  stored_bundles::pieces done;

  void take(size_t i, const result<shared_bytes>& x) {
    if (!done)
      return;
    if (!x)
      return std::exchange(done, nullptr)(x.failure());
    files[i] = *x;
    if (--missing == 0)
      std::exchange(done, nullptr)(std::move(files));
  }
};

} // namespace

stored_bundles::known stored_bundles::find(const std::string& content) const {
  std::lock_guard guard{mutex_};
  auto i = manifests_.find(content);
  return i == manifests_.end() ? nullptr : i->second;
}

void stored_bundles::with_manifest(place where,
                                   std::function<void(result<known>)> then) {
  auto path = where.folder + "/" + manifest_file;
  store_->get(
    {path, 0, 0, max_manifest_bytes},
    [this, where, path,
     then = std::move(then)](const result<shared_bytes>& text) {
      if (!text)
        return then(text.failure());
      if (sha256_hex(text->view()) != where.content)
        return then(error{ec::bad_config,
                          path + ": is not the manifest with the SHA-256 "
                            + where.content,
                          {}});
      auto info = parse_manifest(std::string{text->text()}, path);
      if (!info)
        return then(info.failure());
      auto made =
        std::make_shared<read_manifest>(read_manifest{*text, std::move(*info)});
      {
        std::lock_guard guard{mutex_};
        if (manifests_.size() >= most_manifests)
          manifests_.clear(); // manifests in use are read again
        manifests_[where.content] = made;
      }
      then(known{made});
    });
}

void stored_bundles::give_head(place where, pieces done) {
  with_manifest(where, [this, where,
                        done = std::move(done)](const result<known>& y) {
    if (!y)
      return done(y.failure());
    auto& info = (*y)->info;
    auto& weights = info.weights;
    auto all = std::make_shared<gathering>();
    all->files.resize(2 + info.layers.size());
    all->files[0] = (*y)->text;
    all->missing = info.layers.size();
    all->done = done;
    auto get = [&](size_t i, const std::string& file, uint64_t most) {
      store_->get({where.folder + "/" + file, 0, 0, most},
                  [all, i](const result<shared_bytes>& z) { all->take(i, z); });
    };
    if (weights.bytes > weights.bytes_of_chunk()) {
      ++all->missing;
      get(1, weights.file + std::string{chunk_list_suffix},
          chunk_list::text_bytes(weights.bytes, weights.bytes_of_chunk()));
    }
    for (size_t i = 0; i < info.layers.size(); ++i)
      get(2 + i, info.layers[i].code, info.layers[i].code_bytes);
  });
}

void stored_bundles::give_chunk(place where, uint64_t chunk, bytes done) {
  auto give = [this, where, chunk](const manifest& info, bytes then) {
    auto& weights = info.weights;
    auto size = weights.bytes_of_chunk();
    auto first = chunk * size;
    if (first >= weights.bytes)
      return then(
        error{ec::bad_request,
              where.folder + ": has no chunk " + std::to_string(chunk),
              {}});
    store_->get({where.folder + "/" + weights.file, first,
                 std::min(size, weights.bytes - first), 0},
                std::move(then));
  };
  if (auto y = find(where.content))
    return give(y->info, std::move(done));
  with_manifest(where, [give, done = std::move(done)](const result<known>& y) {
    if (!y)
      return done(y.failure());
    give((*y)->info, done);
  });
}

} // namespace millrace
