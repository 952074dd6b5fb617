// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "transport/bulk/bulk_store.hpp"
#include "transport/bulk/engine.hpp"

namespace millrace {

/// Object stores as sources of a bulk engine, by source name: the engine
/// requests heads and chunks from them as from hosts.
class store_sources {
public:
  using stores = std::map<std::string, std::shared_ptr<bulk_store>>;

  store_sources(stores all, bulk_engine& engine)
    : all_(std::move(all)),
      engine_(engine) {}

  bool has(const std::string& node) const { return all_.contains(node); }

  /// Chunks requested at a time from a source, a store or a host.
  size_t window_of(const std::string& node) const;

  /// Called on the engine's thread with each chunk, before the engine.
  using counter = std::function<void(const shared_bytes&)>;

  /// Requests a head or chunk from a store; the source's token is the folder.
  /// The answer reaches the engine on its thread, through `post`. `now` is
  /// called there.
  void ask(const bulk_source& store, const bulk_ask& what,
           const bulk_carrier::poster& post, std::function<timestamp()> now,
           counter count = {});

private:
  stores all_;
  bulk_engine& engine_;
};

} // namespace millrace
