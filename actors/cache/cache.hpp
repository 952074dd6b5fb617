// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/handles.hpp"
#include "models/bundle_store.hpp"
#include "runtime/host_probe.hpp"
#include "runtime/metrics.hpp"

namespace millrace {

/// Opens bundles, apart from the actors: that touches the disk, and verifies
/// every byte that is used. Completions may come on any thread.
class bundle_reader {
public:
  virtual ~bundle_reader() = default;
  using opened = std::function<void(result<fetched>)>;
  using changed = std::function<void(disk_listing)>;
  /// All but the weights is verified then; these are to be verified where they
  /// lie, or to come into memory.
  virtual void open(const std::string& model, uint64_t version, verify how,
                    opened done) = 0;
  /// Verifies the weights of these layers of an opened bundle ({0, 0}: of all),
  /// after those that it was asked for before, and those of higher rank. Who
  /// needs them asks the bundle.
  virtual void bring(std::shared_ptr<const bundle> x, layer_range layers,
                     transfer_rank rank) = 0;
  /// Tells what there is, now and whenever that changes; and, of what it was
  /// asked to bring, what was found to be broken. Only who asked last is told.
  using broken = std::function<void(const bundle& x, const error& why)>;
  virtual void watch(changed tell, broken tell_broken) = 0;
};

/// Has what came from other hosts on this one's disk; see bundle_directory.hpp.
/// Completions may come on any thread.
class bundle_keeper {
public:
  virtual ~bundle_keeper() = default;
  using listed = std::function<void(kept_list)>;
  virtual void list(listed done) = 0;
  /// As a reader does.
  virtual void open(const std::string& content, verify how,
                    bundle_reader::opened done) = 0;
  using kept = std::function<void(result<void>)>;
  virtual void keep(std::shared_ptr<const bundle> x, kept done) = 0;
  virtual void drop(const std::string& content) = 0;
  /// Whether a bundle's directory is one of those.
  virtual bool is_its_own(const std::string& directory) const = 0;
};

/// What others need to know of a bundle.
model_info describe(const manifest& x, std::vector<std::string> aliases);
model_info describe(const bundle& x, std::vector<std::string> aliases);

/// A reader of a directory, on a thread of its own. While `memory` refuses with
/// conflict, another process of the host reads it: whoever asks waits for that.
std::unique_ptr<bundle_reader>
read_directory(std::string directory,
               memory_maker memory = arriving_file::make);

/// One of a directory, on a thread of its own that gives way to others.
std::unique_ptr<bundle_keeper>
keep_in_directory(std::string directory,
                  memory_maker memory = arriving_file::make);

struct cache_options {
  std::shared_ptr<bundle_reader> reader;
  std::shared_ptr<bundle_keeper> keeper; ///< null: nothing is kept on the disk
  byte_count disk{};                     ///< for what is
  supervisor_actor owner;                ///< hears what there is
  std::shared_ptr<metrics> counts;
  /// For models; 0: as much as leaves a part of the host's to others.
  byte_count memory{};
  host_probe probe; ///< tells how much that is; empty, or of zeros: no limit
  eviction evict = eviction::cost;
  /// Gets what other hosts have; null where there is none.
  std::function<relay_actor()> find_relay = [] { return relay_actor{}; };
};

/// Hands out bundles, each opened and verified once for all who ask: one
/// mapping, one physical copy. What is on this host's disk is read into memory,
/// where it stays as it was verified, or used where it lies, where there is no
/// room. What is not there its relay gets from others. What is in memory stays
/// when nobody uses it any more, until its room is needed (FP-39, QU-38); what
/// others gave stays on the disk, too, where it is found again after a restart.
/// What turns out to be broken on the disk is used no more, and got from
/// others.
cache_actor::behavior_type
cache(cache_actor::stateful_pointer<struct cache_state> self,
      cache_options options);

} // namespace millrace
