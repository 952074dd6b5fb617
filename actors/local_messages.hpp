// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What actors of one node tell each other, with things in it that never cross
/// a wire.

#include <map>
#include <memory>

#include "actors/cache/disk_cache.hpp"
#include "models/bundle.hpp"
#include "models/device/device.hpp"
#include "runtime/actor.hpp"
#include "runtime/metrics.hpp"
#include "runtime/store/store.hpp"
#include "transport/messages/all.hpp"
#include "transport/objects/bundle_index.hpp"

namespace millrace {

/// Private to each actor that has timers.
using tick = caf::tick_atom;

/// A bundle, opened, and what others need to know of it. All but its weights is
/// verified; these come, chunk by chunk.
struct fetched {
  std::shared_ptr<const bundle> content;
  model_info info;
  std::string from; ///< disk, memory, or who gives it: a node or a store
  MILLRACE_FIELDS(fetched, content, info, from)
};

/// Of that, as metrics have it. No node is called so.
inline found_in where_found(const std::string& from) {
  return from == "memory"                 ? found_in::memory
         : from == "disk"                 ? found_in::disk
         : from.starts_with(store_prefix) ? found_in::stores
                                          : found_in::hosts;
}

/// Of which these layers are needed.
struct fetch {
  std::string model;
  uint64_t version = 0;
  layer_range layers; ///< {0, 0}: all
  /// The bundle that is meant, as in model_info; empty: whatever is called so
  /// here. One that is not here is got from other hosts.
  std::string content;
  transfer_rank rank = transfer_rank::start;
  uint64_t bytes = 0; ///< that come, if they are not here
  MILLRACE_FIELDS(fetch, model, version, layers, content, rank, bytes)
};

/// Cache to relay: its room is needed for something else.
struct drop_content {
  std::string content;
  MILLRACE_FIELDS(drop_content, content)
};

/// What a bulk port tells its relay: a content has begun to come, and can be
/// passed on; where its weights lie is known (without an error); so many chunks
/// of it are missing; nothing more comes from that node.
struct content_begun {
  std::string content;
  std::shared_ptr<const bundle> bytes;
  MILLRACE_FIELDS(content_begun, content, bytes)
};
struct content_found {
  std::string content;
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(content_found, content, why)
};
struct content_got {
  std::string content;
  uint64_t missing = 0;
  uint64_t pull = 0; ///< of its relay: what an earlier one got counts no more
  MILLRACE_FIELDS(content_got, content, missing, pull)
};
struct content_lost {
  std::string content;
  std::string node;
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(content_lost, content, node, why)
};

/// What bundles a host has, whenever that changes: from its cache to the
/// supervisor, and to the relay.
struct bundle_list {
  std::vector<model_info> models;      ///< where people put them
  std::vector<model_info> kept{};      ///< all of one, that came from others
  std::vector<std::string> troubles{}; ///< why others cannot be used, or kept
  uint64_t memory = 0;                 ///< as cache_memory in inventory
  std::vector<held_bundle> held{};     ///< as there
  MILLRACE_FIELDS(bundle_list, models, kept, troubles, memory, held)
};

/// Reader to cache: what there is where people put bundles.
struct disk_listing {
  std::vector<model_info> models;
  std::vector<std::string> unusable{}; ///< why others there are
  /// Contents of models whose files have changed since this was told last.
  std::vector<std::string> changed{};
  MILLRACE_FIELDS(disk_listing, models, unusable, changed)
};

/// A cache or a relay that begins to the other one of its host, which may have
/// been there before it.
struct get_contents {
  MILLRACE_FIELDS(get_contents)
};

/// What is in memory, or on its way there; what a replica uses.
struct content_here {
  std::string content;
  model_info info;
  std::shared_ptr<const bundle> bytes; ///< null: nothing of it yet
  layer_range layers;                  ///< of those, or all ({0, 0})
  bool from_disk = false;              ///< of this host, or from others
  MILLRACE_FIELDS(content_here, content, info, bytes, layers, from_disk)
};
struct contents_here {
  bundle_list disk; ///< for a relay
  std::vector<content_here> memory;
  pinned_contents last; ///< for a cache
  MILLRACE_FIELDS(contents_here, disk, memory, last)
};

/// Nobody uses a content in a cache's memory any more, since a while ago.
struct content_unused {
  std::string content;
  MILLRACE_FIELDS(content_unused, content)
};

/// What a bundle reader tells its cache.
struct bundle_opened {
  std::string model;
  uint64_t version = 0;
  std::string wanted; ///< the content, as in fetch
  std::shared_ptr<result<fetched>> content;
  bool kept = false; ///< once it had come from another host
  MILLRACE_FIELDS(bundle_opened, model, version, wanted, content, kept)
};

/// What a cache's keeper has on the disk.
struct kept_list {
  std::vector<disk_bundle> bundles;
  size_t broken = 0; ///< that were there, too, and are not any more
  MILLRACE_FIELDS(kept_list, bundles, broken)
};

/// All of it has come from another host.
struct content_whole {
  std::string content;
  MILLRACE_FIELDS(content_whole, content)
};

/// It is on the disk now, or why it is not.
struct content_kept {
  std::string content;
  std::shared_ptr<const error> why; ///< null: it is
  MILLRACE_FIELDS(content_kept, content, why)
};

/// It was found to be broken on the disk.
struct content_broken {
  std::string content;
  std::string directory; ///< of the copy that is
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(content_broken, content, directory, why)
};

/// What a store tells the registry.
struct registry_rows {
  std::string table;
  std::shared_ptr<result<std::vector<stored_row>>> rows;
  MILLRACE_FIELDS(registry_rows, table, rows)
};
struct registry_written {
  std::shared_ptr<result<uint64_t>> version;
  MILLRACE_FIELDS(registry_written, version)
};

/// Load layers [first, last) of a bundle and say when they are ready.
struct load_stage {
  uint64_t instance = 0;
  std::shared_ptr<const bundle> content;
  uint64_t first_layer = 0;
  uint64_t last_layer = 0;
  uint64_t max_batch = 1;
  uint64_t threads = 1;
  double share = 0; ///< as in load_request
  bool trusted = false;
  uint64_t extends_replica = 0; ///< as in load_request
  bool skip_warm_up = false;    ///< as in load_request
  uint32_t concurrency = 0;     ///< of its batches at once; 0: no own limit
  MILLRACE_FIELDS(load_stage, instance, content, first_layer, last_layer,
                  max_batch, threads, share, trusted, extends_replica,
                  skip_warm_up, concurrency)
};

/// To an executor: changes a loaded instance without a reload. An instance that
/// is not there is ignored.
struct tune_stage {
  uint64_t instance = 0;
  uint32_t concurrency = 0; ///< as in load_stage
  uint32_t threads = 0;     ///< of its next executions; 0: as before
  MILLRACE_FIELDS(tune_stage, instance, concurrency, threads)
};

/// To an executor: the device is shared like this from now on. Running batches
/// end as they are. The answer is the sharing in force.
struct share_device {
  device_sharing sharing;
  MILLRACE_FIELDS(share_device, sharing)
};

struct unload_stage {
  uint64_t instance = 0;
  MILLRACE_FIELDS(unload_stage, instance)
};

/// Replica to executor: nobody waits for this batch any more. It is answered
/// all the same.
struct abandon {
  uint64_t id = 0; ///< the replica's
  MILLRACE_FIELDS(abandon, id)
};

/// The weights of what an executor loads are there, or will not be.
struct weights_arrived {
  uint64_t instance = 0;
  std::shared_ptr<const error> failure; ///< null: they are there
  MILLRACE_FIELDS(weights_arrived, instance, failure)
};

/// What a device's threads tell its executor.
struct device_loaded {
  uint64_t instance = 0;
  std::shared_ptr<result<load_report>> report;
  MILLRACE_FIELDS(device_loaded, instance, report)
};
struct device_lost {
  uint64_t instance = 0;
  std::shared_ptr<const error> why;
  MILLRACE_FIELDS(device_lost, instance, why)
};
struct device_usable {
  std::shared_ptr<const error> why_not; ///< null: it is
  MILLRACE_FIELDS(device_usable, why_not)
};
struct device_executed {
  std::shared_ptr<execution_report> report;
  MILLRACE_FIELDS(device_executed, report)
};

/// Executor to supervisor: why nothing can run on its device; empty: it can.
struct device_condition {
  std::string device;
  std::string trouble;
  MILLRACE_FIELDS(device_condition, device, trouble)
};

/// Stop taking work; end when the running work is answered.
struct finish {
  MILLRACE_FIELDS(finish)
};

/// Take no more work from other nodes' gateways; your own node's goes on until
/// it has answered what it took.
struct finish_elsewhere {
  MILLRACE_FIELDS(finish_elsewhere)
};

} // namespace millrace
