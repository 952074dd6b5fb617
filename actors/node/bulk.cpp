// SPDX-License-Identifier: Apache-2.0
#include "actors/node/bulk.hpp"

#include "runtime/random.hpp"
#include "transport/objects/stored_bundles.hpp"

namespace millrace {

namespace {

/// Returns an address on the same interface with any free port, or for an ipc
/// address, a file beside it.
std::string any_port_of(const std::string& address) {
  auto is_file = address.starts_with("ipc://");
  return is_file ? address + ".bulk"
                 : address.substr(0, address.rfind(':')) + ":*";
}

} // namespace

result<std::unique_ptr<zmq_bulk>> open_bulk_port(const cluster_config& config,
                                                 const std::string& node,
                                                 uint64_t incarnation,
                                                 std::optional<node_keys> keys,
                                                 metrics& counts) {
  auto& mine = config.nodes.at(node);
  zmq_bulk_settings settings;
  settings.self = {node, incarnation, entropy()};
  settings.endpoint = mine.bulk.empty() ? any_port_of(mine.peers) : mine.bulk;
  settings.advertise = mine.advertise;
  settings.keys = std::move(keys);
  settings.encrypt = config.bulk.encrypt;
  settings.limits.per_second = config.bulk.rate.bytes_per_second;
  for (auto& [name, x] : config.object_stores) {
    auto store = open_object_store(x);
    if (!store)
      return store.failure();
    settings.stores[std::string{store_prefix} + name] =
      std::make_shared<stored_bundles>(std::move(*store), x.parallel);
  }
  return zmq_bulk::open(std::move(settings), counts);
}

} // namespace millrace
