// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/cache/cache_book.hpp"
#include "actors/handles.hpp"
#include "models/bundle_store.hpp"
#include "runtime/host_probe.hpp"
#include "runtime/metrics.hpp"
#include "transport/describe.hpp"

namespace millrace {

/// Opens bundles outside of the actors, because opening reads the disk and
/// verifies every byte that is used. Completions may run on any thread.
class bundle_reader {
public:
  virtual ~bundle_reader() = default;
  using opened = std::function<void(result<fetched>)>;
  using changed = std::function<void(disk_listing)>;
  /// Opens a bundle and verifies all of the bundle but the weights. `how`
  /// selects whether the weights are verified in the file, or read into memory.
  virtual void open(const std::string& model, uint64_t version, verify how,
                    opened done) = 0;
  /// Verifies the weights of these layers of an opened bundle ({0, 0}: all
  /// layers), after earlier requests of the same rank and all requests of
  /// higher rank. The result is available from the bundle's weights file.
  virtual void bring(std::shared_ptr<const bundle> opened, layer_range layers,
                     transfer_rank rank) = 0;
  /// Reports the listing of the directory, now and after each change, and each
  /// bundle in which bring() found a broken chunk. Only the latest caller
  /// receives reports.
  using broken = std::function<void(const bundle& opened, const error& why)>;
  virtual void watch(changed tell, broken tell_broken) = 0;
};

/// The disk cache: bundles from other hosts on the disk of this host; see
/// bundle_directory.hpp. Completions may run on any thread.
class bundle_keeper {
public:
  virtual ~bundle_keeper() = default;
  using listed = std::function<void(kept_list)>;
  virtual void list(listed done) = 0;
  /// Opens a bundle as bundle_reader::open() does.
  virtual void open(const std::string& content, verify how,
                    bundle_reader::opened done) = 0;
  using kept = std::function<void(result<void>)>;
  virtual void keep(std::shared_ptr<const bundle> opened, kept done) = 0;
  virtual void drop(const std::string& content) = 0;
  /// Whether this directory of a bundle belongs to the disk cache.
  virtual bool is_its_own(const std::string& directory) const = 0;
};

/// Creates a reader of a directory, with its own thread. While `memory` returns
/// conflict, another process of the host reads the same bundle, and the open
/// waits.
std::unique_ptr<bundle_reader>
read_directory(std::string directory,
               memory_maker memory = arriving_file::make);

/// Creates a disk cache in a directory, with its own thread of low priority.
std::unique_ptr<bundle_keeper>
keep_in_directory(std::string directory,
                  memory_maker memory = arriving_file::make);

struct cache_options {
  std::shared_ptr<bundle_reader> reader;
  std::shared_ptr<bundle_keeper> keeper; ///< null: no disk cache
  byte_count disk{};                     ///< limit of the disk cache
  supervisor_actor owner;                ///< receives each bundle_list
  std::shared_ptr<metrics> counts;
  /// Limit of memory for models; 0: all but a reserve of the host's memory.
  byte_count memory{};
  host_probe probe; ///< memory of the host; empty, or all zeros: no limit
  eviction evict = eviction::cost;
  /// Returns the relay, which fetches bundles from other hosts, or null.
  std::function<relay_actor()> find_relay = [] { return relay_actor{}; };
};

/// The CACHE hands out bundles. Each bundle is opened and verified once for all
/// users: one mapping, one physical copy.
///
/// - A bundle on the disk of this host is read into memory, where the verified
///   bytes stay, or is used from the file when memory has no room.
/// - A bundle that this host lacks is fetched from other hosts by the relay.
/// - A bundle in memory stays without users until its room is needed (FP-39,
///   QU-38).
/// - A bundle from another host also stays in the disk cache, and is found
///   again after a restart.
/// - A bundle that is broken on the disk is no longer used, and fetched from
///   other hosts instead.
cache_actor::behavior_type
cache(cache_actor::stateful_pointer<struct cache_state> self,
      cache_options options);

} // namespace millrace
