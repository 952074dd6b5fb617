// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/cache/cache.hpp"
#include "actors/monitor/monitor.hpp"
#include "actors/node/supervisor.hpp"
#include "actors/provider/machine_source.hpp"
#include "config/config.hpp"
#include "models/profile_book.hpp"
#include "runtime/host_probe.hpp"
#include "transport/bulk/bulk.hpp"
#include "transport/objects/object_store.hpp"

namespace millrace {

using device_maker = std::function<result<std::unique_ptr<device>>(
  const device_config&, device_listener&)>;

/// The environment of a node's actors. The real world and the simulated one put
/// different things here, and that is all the difference between them.
struct node_environment {
  bus* net = nullptr;
  caf::execution_unit* host = nullptr; ///< runs what devices complete; or null
  std::shared_ptr<metrics> counts;
  std::shared_ptr<health> state;
  std::shared_ptr<store> facts;
  std::function<std::shared_ptr<bundle_reader>()> read_bundles;
  /// Of a directory, what came from other hosts; empty: that is not kept.
  std::function<std::shared_ptr<bundle_keeper>(std::string, memory_maker)>
    keep_bundles = keep_in_directory;
  memory_maker memory = arriving_file::make; ///< for what comes from those
  std::shared_ptr<bulk_port> bulk; ///< null: nothing is got from other hosts
  std::function<std::string()> draw_token; ///< a secret
  /// Empty: object stores are not to be had.
  std::function<result<std::unique_ptr<object_store>>(
    const object_store_config&)>
    open_store = open_object_store;
  /// Of the machines of pools; null: there are none.
  std::shared_ptr<machine_source> machines;
  device_maker make_device;
  host_probe probe;
  children_probe children; ///< empty: the node has none
  gpu_probe gpus;          ///< empty: there are none
  std::shared_ptr<span_recorder> spans = std::make_shared<span_recorder>();
  std::function<std::vector<finding>()> examine; ///< its host; may be empty
  std::function<microseconds()> wall_clock;      ///< may be empty
  /// Profiles that a PROFILER begins with; null: none.
  std::shared_ptr<const profile_book> known_profiles;
  std::function<void()> ended; ///< the node has drained
  /// Has done elsewhere what would hold up the actors: one after the other.
  std::function<void(std::function<void()>)> aside;
};

/// What a device's config says of it to others.
device_info describe(const device_config& x);

/// The actors of a node of a cluster, by its roles, in that environment.
supervisor_options compose_node(const cluster_config& config,
                                const std::string& name,
                                node_environment environment);

} // namespace millrace
