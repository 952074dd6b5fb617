// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Messages between a host's cache, its relay, their readers and the bulk port,
/// in one process.

#include <memory>
#include <string>
#include <vector>

#include "models/bundle.hpp"
#include "runtime/metrics.hpp"
#include "transport/messages/all.hpp"
#include "transport/objects/bundle_index.hpp"

namespace millrace {

/// An open bundle. All but its weights is verified; the weights may still
/// arrive, chunk by chunk.
struct fetched {
  std::shared_ptr<const bundle> content;
  model_info info;
  std::string from; ///< "disk", "memory", or the nodes or store that send it
  MILLRACE_FIELDS(fetched, content, info, from)
};

/// The label of fetched::from in metrics. No node has one of these names.
inline found_in where_found(const std::string& from) {
  return from == "memory"                 ? found_in::memory
         : from == "disk"                 ? found_in::disk
         : from.starts_with(store_prefix) ? found_in::stores
                                          : found_in::hosts;
}

/// Requests a bundle for some of its layers.
struct fetch {
  std::string model;
  uint64_t version = 0;
  layer_range layers; ///< {0, 0}: all
  /// Content id, as in model_info. Other hosts send it if it is not here.
  /// Empty: the bundle of this host with that model and version.
  std::string content;
  transfer_rank rank = transfer_rank::start;
  uint64_t bytes = 0; ///< expected size of the transfer, if it is not here
  MILLRACE_FIELDS(fetch, model, version, layers, content, rank, bytes)
};

/// Cache to relay: the memory of a content is needed.
struct drop_content {
  std::string content;
  MILLRACE_FIELDS(drop_content, content)
};

/// Bulk port to relay: the head of a content arrived; it can be relayed.
struct content_begun {
  std::string content;
  std::shared_ptr<const bundle> bytes;
  MILLRACE_FIELDS(content_begun, content, bytes)
};

/// Bulk port to relay: the layout of the weights is known, or cannot be read.
struct content_found {
  std::string content;
  std::shared_ptr<const error> why; ///< null: it is known
  MILLRACE_FIELDS(content_found, content, why)
};

/// Bulk port to relay: chunks of a content arrived.
struct content_got {
  std::string content;
  uint64_t missing = 0; ///< chunks yet to arrive
  uint64_t pull = 0;    ///< number of the pull order; older ones are ignored
  MILLRACE_FIELDS(content_got, content, missing, pull)
};

/// Bulk port to relay: a node sends no more chunks of a content.
struct content_lost {
  std::string content;
  std::string node;
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(content_lost, content, node, why)
};

/// Cache to supervisor and relay, after each change: the bundles of the host.
struct bundle_list {
  std::vector<model_info> models;      ///< in the bundle directory
  std::vector<model_info> kept{};      ///< complete, from other hosts
  std::vector<std::string> troubles{}; ///< bundles that cannot be used or kept
  uint64_t memory = 0;                 ///< as node_state::cache_memory
  std::vector<held_bundle> held{};     ///< as in node_state
  MILLRACE_FIELDS(bundle_list, models, kept, troubles, memory, held)
};

/// Reader to cache: the bundles in the bundle directory.
struct disk_listing {
  std::vector<model_info> models;
  std::vector<std::string> unusable{}; ///< bundles with errors, and why
  /// Contents with changed files since the last listing.
  std::vector<std::string> changed{};
  MILLRACE_FIELDS(disk_listing, models, unusable, changed)
};

/// A started cache to the relay, or a started relay to the cache: requests the
/// contents in memory.
struct get_contents {
  MILLRACE_FIELDS(get_contents)
};

/// A content in memory, or in transfer. Replica to cache: the content in use.
struct content_here {
  std::string content;
  model_info info;
  std::shared_ptr<const bundle> bytes; ///< null: nothing has arrived yet
  layer_range layers;                  ///< its layers; {0, 0}: all
  bool from_disk = false;              ///< from this host's disk
  MILLRACE_FIELDS(content_here, content, info, bytes, layers, from_disk)
};

/// The answer to get_contents.
struct contents_here {
  bundle_list disk; ///< set by a cache
  std::vector<content_here> memory;
  pinned_contents last; ///< set by a relay
  MILLRACE_FIELDS(contents_here, disk, memory, last)
};

/// Cache to itself, after a delay: a content in memory may have no users.
struct content_unused {
  std::string content;
  MILLRACE_FIELDS(content_unused, content)
};

/// Reader to cache: the result of opening a bundle.
struct bundle_opened {
  std::string model;
  uint64_t version = 0;
  std::string wanted; ///< the content, as in fetch
  std::shared_ptr<result<fetched>> content;
  bool kept = false; ///< opened from the disk cache
  MILLRACE_FIELDS(bundle_opened, model, version, wanted, content, kept)
};

/// Keeper to cache: the bundles in the disk cache.
struct kept_list {
  std::vector<disk_bundle> bundles;
  size_t broken = 0; ///< corrupt bundles that were removed
  MILLRACE_FIELDS(kept_list, bundles, broken)
};

/// All chunks of a content have arrived from another host.
struct content_whole {
  std::string content;
  MILLRACE_FIELDS(content_whole, content)
};

/// Keeper to cache: the result of writing a content to the disk cache.
struct content_kept {
  std::string content;
  std::shared_ptr<const error> why; ///< null: it is on the disk
  MILLRACE_FIELDS(content_kept, content, why)
};

/// A copy of a content on the disk is corrupt.
struct content_broken {
  std::string content;
  std::string directory; ///< of the corrupt copy
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(content_broken, content, directory, why)
};

/// Store watch to supervisor: the models of an object store.
struct stored_models {
  std::string store;
  std::vector<model_info> models; ///< of the last successful read
  std::string error{};            ///< why the store cannot be read now
  MILLRACE_FIELDS(stored_models, store, models, error)
};

/// The index of an object store, or why it cannot be read; in-process only.
struct index_read {
  std::shared_ptr<const result<bundle_index>> content;
  MILLRACE_FIELDS(index_read, content)
};

} // namespace millrace
