// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <mutex>

#include "models/manifest.hpp"
#include "transport/bulk/bulk_store.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

/// The bundles of an object store. Verifies only the manifest, which it needs
/// itself. The receiver verifies the rest, as for any source.
class stored_bundles : public bulk_store {
public:
  stored_bundles(std::unique_ptr<object_store> store, size_t parallel)
    : parallel_(parallel),
      store_(std::move(store)) {}

  size_t parallel() const override { return parallel_; }

  /// Manifest, list of chunks and code, layer by layer. Errors: those of the
  /// store; bad_config if the manifest's hash is not the content.
  void give_head(place where, pieces done) override;

  /// A chunk of the weights. Errors: as give_head; bad_request for a chunk
  /// beyond the last.
  void give_chunk(place where, uint64_t chunk, bytes done) override;

private:
  struct read_manifest {
    shared_bytes text;
    manifest info;
  };
  using known = std::shared_ptr<const read_manifest>;

  void with_manifest(place where, std::function<void(result<known>)> then);
  known find(const std::string& content) const;

  size_t parallel_;
  mutable std::mutex mutex_;
  std::map<std::string, known> manifests_; ///< by content; guarded
  std::unique_ptr<object_store> store_;    // ends first: no later callbacks
};

} // namespace millrace
