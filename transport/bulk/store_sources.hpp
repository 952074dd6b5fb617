// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "transport/bulk/bulk_store.hpp"
#include "transport/bulk/engine.hpp"

namespace millrace {

/// Object stores that a bulk engine may be told to get chunks from, by the
/// names of sources: the engine asks them as it asks hosts.
class store_sources {
public:
  using stores = std::map<std::string, std::shared_ptr<bulk_store>>;

  store_sources(stores all, bulk_engine& engine)
    : all_(std::move(all)),
      engine_(engine) {}

  bool has(const std::string& node) const { return all_.contains(node); }

  /// How many chunks a source is asked for at a time, store or host.
  size_t window_of(const std::string& node) const;

  /// What to do on the engine's thread with a chunk before the engine gets it.
  using counter = std::function<void(const shared_bytes&)>;

  /// Asks a store, whose folder is the source's token; the answer reaches the
  /// engine through `post`, on its thread. `now` is asked there.
  void ask(const bulk_source& store, const bulk_ask& what,
           const bulk_carrier::poster& post, std::function<timestamp()> now,
           counter count = {});

private:
  stores all_;
  bulk_engine& engine_;
};

} // namespace millrace
