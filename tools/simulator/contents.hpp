// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>

#include "config/scenario.hpp"
#include "models/bundle.hpp"

namespace millrace::simulator {

/// Contents of a scenario's models as they travel: manifest, list of chunks and
/// code are real, the weights have no bytes (models/reserved_content.hpp). A
/// chunk is known by its content, its number and its length; one that does not
/// come from this content is refused as a wrong one is. Each content is made
/// once for all hosts. Outlives whatever uses it.
class contents {
public:
  explicit contents(const scenario& what) : what_(what) {}
  contents(const contents&) = delete;
  contents& operator=(const contents&) = delete;

  /// All chunks are there.
  std::shared_ptr<const bundle> whole(const std::string& model,
                                      uint64_t version);

  /// No chunk is there.
  std::shared_ptr<bundle> absent(const std::string& model, uint64_t version,
                                 arriving_file::where place);

  /// Memory of a host for what comes from elsewhere.
  memory_maker memory();

  /// The content of that id; null: there is none.
  std::shared_ptr<const bundle> find(const std::string& id);

  /// A file of the object store: its index, or a file of a model that is there
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
  result<shared_bytes> file_of(entry& x, const std::string& name);

  const scenario& what_;
  std::map<std::pair<std::string, uint64_t>, entry> made_;
  std::map<std::string, entry*> by_chunks_; ///< by the hash of their list
};

} // namespace millrace::simulator
