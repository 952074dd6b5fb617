// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "models/bundle_store.hpp"

namespace millrace {

/// Reads bundles, apart from the actors: opening one touches the disk and
/// verifies every byte. Completions may come on any thread.
class bundle_reader {
public:
  virtual ~bundle_reader() = default;
  using opened = std::function<void(result<fetched>)>;
  using changed = std::function<void(std::vector<model_info>)>;
  virtual void open(const std::string& model, uint64_t version,
                    opened done) = 0;
  /// Tells what there is, now and whenever that changes.
  virtual void watch(changed tell) = 0;
};

/// What others need to know of a bundle.
model_info describe(const manifest& x, std::vector<std::string> aliases);

/// A reader of a directory, on a thread of its own.
std::unique_ptr<bundle_reader> read_directory(std::string directory);

/// Hands out the bundles of a host, each opened and verified once for all who
/// ask while anybody uses it: one mapping, one physical copy. The owner hears
/// what there is.
cache_actor::behavior_type
cache(cache_actor::stateful_pointer<struct cache_state> self,
      std::shared_ptr<bundle_reader> reader, supervisor_actor owner);

} // namespace millrace
