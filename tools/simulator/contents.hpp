// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "config/scenario.hpp"
#include "models/bundle.hpp"

namespace millrace::simulator {

/// Contents of a scenario's models as hosts transfer them. Manifest, list of
/// chunks and code are real; the weights have no bytes
/// (models/reserved_content.hpp). A chunk is identified by its content, number
/// and length; a chunk of another content fails verification. Each content is
/// made once for all hosts. Must outlive all bundles of its contents.
class contents {
public:
  explicit contents(const scenario& what) : what_(what) {}
  contents(const contents&) = delete;
  contents& operator=(const contents&) = delete;

  /// A bundle with all chunks.
  std::shared_ptr<const bundle> whole(const std::string& model,
                                      uint64_t version);

  /// A bundle without any chunk.
  std::shared_ptr<bundle> absent(const std::string& model, uint64_t version,
                                 arriving_file::where place);

  /// Allocates memory of a host for chunks from other hosts.
  memory_maker memory();

  /// Finds a content by its id; null if unknown.
  std::shared_ptr<const bundle> find(const std::string& id);

  /// A file of the object store: the index, or a file of a model in the store
  /// (bundle_place::store). Errors: unknown_model.
  result<shared_bytes> stored_file(const std::string& path);

private:
  struct entry {
    bundle content; ///< without a weights file
    shared_bytes bytes;
    chunk_list chunks;
    std::shared_ptr<const bundle> whole{};
  };

  entry& get(const std::string& model, uint64_t version);
  entry make(const std::string& model, uint64_t version);
  result<shared_bytes> file_of(entry& known, const std::string& name);

  const scenario& what_;
  std::map<std::pair<std::string, uint64_t>, entry> made_;
  std::map<std::string, entry*> by_chunks_; ///< by hash of chunk list
};

} // namespace millrace::simulator
