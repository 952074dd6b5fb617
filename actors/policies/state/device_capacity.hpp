// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "actors/policies/state/cluster_view.hpp"

namespace millrace {

/// What a replica takes of a device's memory.
struct footprint {
  uint64_t bytes = 0;
  uint64_t whole = 0; ///< once it has become a whole replica, where it is to

  /// Beside one that it shares everything with which that has.
  footprint beside(const footprint& x) const {
    return {bytes - std::min(bytes, x.bytes), whole - std::min(whole, x.whole)};
  }
};

/// A device that can get replicas, and how full it is.
struct device_room {
  const node_state* node;
  const device_info* device;
  size_t load = 0;       ///< replicas
  uint64_t held = 0;     ///< bytes
  uint64_t reserved = 0; ///< and what parts need to become whole replicas
  uint64_t leaving = 0;  ///< of held: what drains

  /// Whether it has so much beside those, of so many bytes.
  bool has_room(uint64_t taken, uint64_t bytes) const {
    auto limit = device->memory.value;
    return limit == 0 || taken + bytes <= limit;
  }

  void take(const footprint& x) {
    held += x.bytes;
    reserved += x.whole;
  }
};

/// The devices of a cluster, by number.
class device_capacity {
public:
  device_capacity(const cluster_view& view, std::set<std::string> completed);

  size_t size() const { return all_.size(); }
  device_room& operator[](size_t i) { return all_[i]; }
  const device_room& operator[](size_t i) const { return all_[i]; }

  /// Its device, by number; size() when its node does not say it has that.
  size_t of(const placed_replica& x) const;

  /// What a replica of these layers takes on a node that has the bundle, or can
  /// get it.
  footprint of(const node_state& node, const std::string& model,
               uint64_t version, const layer_range& layers) const;

  /// What a replica takes that is there. One that completes another is as large
  /// as what they do not share.
  footprint of(const node_state& node, const replica_status& x) const;

  /// Whether a node has memory for layers that others have to give it, beside
  /// what is in use there or will be, when so many bytes of that are free. What
  /// is on its own disk needs none.
  bool can_get(const node_state& node, const std::string& model,
               uint64_t version, const layer_range& layers,
               uint64_t freed = 0) const;

  /// Of a node's memory for bundles, what is in use only by what leaves, and
  /// that nobody waits for.
  uint64_t leaving(const node_state& node) const;

  /// What else is in use there only by these.
  uint64_t freed_by(const node_state& node,
                    const std::vector<placed_replica>& some) const;

  /// A replica of these layers will be there. Returns the bytes of the node's
  /// memory for bundles that it takes beside what is.
  uint64_t add(const node_state& node, const std::string& model,
               uint64_t version, const layer_range& layers);

  /// One will be, once what leaves has left, and so much more.
  void wait(const node_state& node, const std::string& model, uint64_t version,
            const layer_range& layers, uint64_t freed);

  /// Whether a node has the bundle of a group, or can fetch it.
  bool has_bundle(const node_state& node, const replica_group& x) const;

  /// Bytes of the parameters of a group's layers; 0 when the node neither has
  /// nor can fetch the bundle.
  uint64_t bytes_of(const node_state& node, const replica_group& x) const;

  /// Books a replica of the group on a device.
  void book(size_t device, const replica_group& x);

private:
  const cluster_view* view_;
  std::set<std::string> completed_;
  /// What a content takes of a node's memory for bundles.
  struct taken {
    uint64_t bytes = 0;
    std::optional<layer_range> layers; ///< none: it is not known which
  };
  /// A node's memory for bundles, as it is or will be.
  struct memory {
    std::map<std::string, taken> by_content;
    uint64_t leaving = 0; ///< bytes of that

    uint64_t sum() const;
    uint64_t more_for(const model_info& its, const layer_range& layers) const;
  };

  std::map<std::string, memory> memory_; ///< by node
  std::vector<device_room> all_;
};

} // namespace millrace
