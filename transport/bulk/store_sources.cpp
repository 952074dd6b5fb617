// SPDX-License-Identifier: Apache-2.0
#include "transport/bulk/store_sources.hpp"

namespace millrace {

size_t store_sources::window_of(const std::string& node) const {
  auto store = all_.find(node);
  return store == all_.end() ? window_of_host : store->second->parallel();
}

void store_sources::ask(const bulk_source& store, const bulk_ask& what,
                        const bulk_carrier::poster& post,
                        std::function<timestamp()> now, counter count) {
  auto& from = *all_.at(store.node);
  bulk_store::place where{what.content, store.token};
  bulk_chunk chunk{what.content, what.chunk};
  auto answering = [this, post, chunk, node = store.node](auto take) {
    return [this, post, chunk, node, take](const auto& found) {
      post([this, chunk, node, take, found] {
        if (found)
          take(*found);
        else
          engine_.on_refusal(node, {chunk.content, found.failure().text});
      });
    };
  };
  if (what.head)
    return from.give_head(
      where, answering([this, chunk, node = store.node](auto& pieces) {
        engine_.on_head(node, {chunk.content}, pieces);
      }));
  from.give_chunk(where, what.chunk,
                  answering([this, chunk, node = store.node, count,
                             now = std::move(now)](auto& bytes) {
                    if (count)
                      count(bytes);
                    engine_.on_chunk(node, chunk, bytes, now());
                  }));
}

} // namespace millrace
