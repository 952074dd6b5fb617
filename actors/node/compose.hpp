// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/cache/cache.hpp"
#include "actors/machine_source.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/node/supervisor.hpp"
#include "config/config.hpp"
#include "models/profile_book.hpp"
#include "runtime/host_probe.hpp"
#include "transport/bulk/bulk.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

using device_maker = std::function<result<std::unique_ptr<device>>(
  const device_config&, device_listener&)>;

/// The environment of a node's actors. Production and simulation differ only
/// in these members.
struct node_environment {
  bus* net = nullptr;
  caf::execution_unit* host = nullptr; ///< runs device completions, or null
  std::shared_ptr<metrics> counts;
  std::shared_ptr<health> state;
  std::shared_ptr<store> facts;
  std::function<std::shared_ptr<bundle_reader>()> read_bundles;
  /// Opens the disk cache in a directory; empty: no disk cache.
  std::function<std::shared_ptr<bundle_keeper>(std::string, memory_maker)>
    keep_bundles = keep_in_directory;
  memory_maker memory = arriving_file::make; ///< for bundles from other hosts
  std::shared_ptr<bulk_port> bulk; ///< null: no transfers from other hosts
  std::function<std::string()> draw_token; ///< returns a new secret
  /// Opens an object store; empty: no object stores.
  std::function<result<std::unique_ptr<object_store>>(
    const object_store_config&)>
    open_store = open_object_store;
  /// Source of the machines of pools; null: no pools.
  std::shared_ptr<machine_source> machines;
  device_maker make_device;
  host_probe probe;
  children_probe children; ///< empty: no child processes
  gpu_probe gpus;          ///< empty: no GPUs
  std::shared_ptr<span_recorder> spans = std::make_shared<span_recorder>();
  /// Checks the host; may be empty.
  std::function<std::vector<finding>()> examine;
  std::function<microseconds()> wall_clock; ///< may be empty
  /// Profiles that the PROFILER starts with; null: none.
  std::shared_ptr<const profile_book> known_profiles;
  std::function<void()> ended; ///< the node has drained
  /// Runs long jobs outside of the actors, one after the other.
  std::function<void(std::function<void()>)> aside;
};

/// Returns the part of a device's config that other nodes need.
device_info describe(const device_config& settings);

/// Returns the actors of a node, according to its roles in the config.
supervisor_options compose_node(const cluster_config& config,
                                const std::string& name,
                                node_environment environment);

} // namespace millrace
