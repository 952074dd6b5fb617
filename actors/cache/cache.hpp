// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "models/bundle_store.hpp"

namespace millrace {

/// Opens bundles, apart from the actors: that touches the disk, and verifies
/// every byte that is used. Completions may come on any thread.
class bundle_reader {
public:
  virtual ~bundle_reader() = default;
  using opened = std::function<void(result<fetched>)>;
  using changed = std::function<void(std::vector<model_info>)>;
  /// All but the weights is verified then.
  virtual void open(const std::string& model, uint64_t version,
                    opened done) = 0;
  /// Verifies the weights of these layers of an opened bundle ({0, 0}: of all),
  /// after those that it was asked for before. Who needs them asks the bundle.
  virtual void bring(std::shared_ptr<const bundle> x, layer_range layers) = 0;
  /// Tells what there is, now and whenever that changes.
  virtual void watch(changed tell) = 0;
};

/// What others need to know of a bundle.
model_info describe(const manifest& x, std::vector<std::string> aliases);
model_info describe(const bundle& x, std::vector<std::string> aliases);

/// A reader of a directory, on a thread of its own.
std::unique_ptr<bundle_reader> read_directory(std::string directory);

struct cache_options {
  std::shared_ptr<bundle_reader> reader;
  supervisor_actor owner; ///< hears what there is
  byte_count memory{};    ///< for what other hosts gave; 0: not limited
  eviction evict = eviction::cost;
  /// Gets what other hosts have; null where there is none.
  std::function<relay_actor()> find_relay = [] { return relay_actor{}; };
};

/// Hands out bundles, each opened and verified once for all who ask while
/// anybody uses it: one mapping, one physical copy. What is not on this host's
/// disk its relay gets from others; that stays in memory when nobody uses it
/// any more, until its room is needed (FP-39).
cache_actor::behavior_type
cache(cache_actor::stateful_pointer<struct cache_state> self,
      cache_options options);

} // namespace millrace
