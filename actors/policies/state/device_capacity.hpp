// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "actors/policies/state/bundle_map.hpp"
#include "actors/policies/state/capacity_tree.hpp"
#include "actors/policies/state/cluster_view.hpp"

namespace millrace {

/// Resources that a replica takes on a device.
struct footprint {
  uint64_t bytes = 0; ///< parameters, and activations of its largest batch
  uint64_t whole = 0; ///< bytes once a part is a whole replica, else `bytes`
  uint64_t units = 0;

  /// The additional footprint beside a replica with footprint other whose
  /// weights are shared.
  footprint beside(const footprint& other) const {
    return {bytes - std::min(bytes, other.bytes),
            whole - std::min(whole, other.whole),
            units - std::min(units, other.units)};
  }
};

/// A device that accepts replicas, and its load.
struct device_room {
  const node_state* node = nullptr;
  const device_info* device = nullptr;
  size_t host = 0;       ///< number of its node, in the order of names
  size_t load = 0;       ///< replicas
  uint64_t held = 0;     ///< bytes of replicas
  uint64_t reserved = 0; ///< held, and the growth of parts to whole replicas
  uint64_t leaving = 0;  ///< bytes of `held` that drain
  uint64_t units = 0;    ///< units that replicas take
  uint64_t units_leaving = 0; ///< units of `units` that drain

  /// Whether `bytes` more are free when `taken` bytes are taken.
  bool has_room(uint64_t taken, uint64_t bytes) const {
    auto limit = device->memory.value;
    return limit == 0 || taken + bytes <= limit;
  }

  /// Whether `more` units are free when `taken` units are taken.
  bool has_units(uint64_t taken, uint64_t more) const {
    return device->units == 0 || taken + more <= device->units;
  }

  void take(const footprint& need) {
    held += need.bytes;
    reserved += need.whole;
    units += need.units;
  }

  friend bool operator==(const device_room&, const device_room&) = default;
};

/// The capacity index: the devices of a cluster by number, their load, and
/// trees that find a device for a replica in O(log n) steps. Derived from a
/// cluster view; `follow` applies changes of some nodes. A capacity_reservation
/// undoes bookings.
class device_capacity {
public:
  /// The view outlives the index. Models in `completed` have parts that become
  /// whole replicas. `costs` gives the memory of activations; null: none.
  device_capacity(const cluster_view& view, std::set<std::string> completed,
                  std::shared_ptr<const cost_book> costs = {});
  device_capacity(const device_capacity&) = delete;

  /// Applies changes of the view: all of the named nodes, which may have joined
  /// or left. Only without a reservation. The cost is proportional to the
  /// replicas and devices of the named nodes. It is that of the constructor
  /// when nodes, devices, bundles, profiles or completed models have changed.
  void follow(const std::set<std::string>& nodes,
              const std::set<std::string>& completed,
              std::shared_ptr<const cost_book> costs);

  size_t size() const { return all_.size(); }
  const device_room& operator[](size_t i) const { return all_[i]; }

  /// The number of the device of a replica; size() when its node lacks the
  /// device.
  size_t of(const placed_replica& replica) const;

  /// Memory and units that a replica of a group takes on a device of a node
  /// that has the bundle or can fetch it.
  footprint of(const device_room& on, const replica_group& group) const;

  /// Resources of a present replica. A whole replica beside its part counts
  /// only what the two do not share.
  footprint of(const node_state& node, const replica_status& replica) const;

  /// Whether a node has memory to fetch layers of a bundle from other nodes, in
  /// addition to the memory in use or reserved, when `freed` bytes become free.
  /// A bundle on the node's own disk needs no memory.
  bool can_get(const device_room& on, const replica_group& group,
               uint64_t freed = 0) const;

  /// Bytes of a node's memory for bundles that only draining replicas use, and
  /// no booking waits for.
  uint64_t leaving(const device_room& on) const {
    return hosts_[on.host].memory.leaving;
  }

  /// Bytes of a node's memory that become free in addition when these replicas
  /// end.
  uint64_t freed_by(const node_state& node,
                    const std::vector<placed_replica>& some) const;

  /// Whether the node of a device has the bundle of a group, or can fetch it.
  bool has_bundle(const device_room& on, const replica_group& group) const;

  /// Bytes of the parameters of a group's layers; 0 when the node neither has
  /// nor can fetch the bundle.
  uint64_t bytes_of(const device_room& on, const replica_group& group) const;

  /// Books a replica of the group on a device.
  void book(size_t device, const replica_group& group);

  /// Books a whole replica beside the part that it completes; `more` is its
  /// footprint beside the part.
  void extend(size_t device, const replica_group& group, const footprint& more);

  /// Books a replica that starts after draining replicas have ended. `freed`:
  /// bytes of the node's memory for bundles that become free until then.
  void wait(size_t device, const replica_group& group, uint64_t freed,
            bool counts_as_load);

  /// Records that a replica on the device drains.
  void leave(size_t device, const footprint& need);

  /// The first device in an order that has room for a replica according to the
  /// index, matches the group's selector, and passes `pass`. `whole`: room for
  /// all layers, as in has_room. Draining nodes are skipped.
  template <class Pass>
  std::optional<size_t> first_device(device_order by,
                                     const replica_group& group, bool whole,
                                     const Pass& pass) const {
    return first_of(
      by, group, [&](auto& kind) { return need_of(group, kind, whole); }, pass);
  }

  /// The same, without the condition of room.
  template <class Pass>
  std::optional<size_t> first_device(device_order by,
                                     const replica_group& group,
                                     const Pass& pass) const {
    return first_of(
      by, group, [](auto&) { return capacity_need{}; }, pass);
  }

  /// Numbers of nodes with the data of a group's model in memory: in a loaded
  /// replica, or in the cache.
  std::vector<size_t> hosts_with(const replica_group& group) const;

  /// Numbers of nodes where the first replica of the model starts.
  std::vector<size_t> hosts_awaiting(const replica_group& group) const;

  size_t host_count() const { return hosts_.size(); }

  /// By device number: replicas of the group's model and version; null: none.
  const std::map<size_t, uint64_t>*
  devices_with(const replica_group& group) const;

  /// Whether a replica of the group's model and version is on a device.
  bool has_replica(size_t device, const replica_group& group) const;

  /// Whether a group is a part of its model.
  bool is_part(const replica_group& group) const;

  /// The devices of a node: the first, and the one after the last.
  std::pair<size_t, size_t> devices_of(size_t host) const {
    return {hosts_[host].first, hosts_[host].last};
  }

  /// Whether two indexes of one view are equal, except for journals.
  friend bool operator==(const device_capacity& left,
                         const device_capacity& right) {
    return left.all_ == right.all_ && left.hosts_ == right.hosts_
           && left.trees_ == right.trees_ && left.models_ == right.models_
           && left.cached_ == right.cached_ && left.bundles_ == right.bundles_
           && left.by_id_ == right.by_id_ && left.fetching_ == right.fetching_;
  }

private:
  friend class capacity_reservation;

  /// A content in a node's memory for bundles.
  struct taken {
    uint64_t bytes = 0;
    std::optional<layer_range> layers; ///< nothing: unknown
    friend bool operator==(const taken&, const taken&) = default;
  };
  /// A node's memory for bundles, now or after the bookings.
  struct memory {
    std::map<std::string, taken> by_content;
    uint64_t leaving = 0; ///< bytes that only draining replicas use

    uint64_t sum() const;
    uint64_t more_for(const model_info& its, const layer_range& layers) const;
    friend bool operator==(const memory&, const memory&) = default;
  };
  /// Replicas of one model and version.
  struct presence {
    std::map<size_t, uint64_t> loaded, starting; ///< replicas, by node
    std::map<size_t, uint64_t> on;               ///< replicas, by device
    friend bool operator==(const presence&, const presence&) = default;
  };
  using model_key = std::pair<std::string, uint64_t>;
  /// A replica as `models_` counts it.
  struct counted_replica {
    model_key model;
    std::optional<size_t> device; ///< nothing: draining
    bool starts = false;
    friend bool operator==(const counted_replica&,
                           const counted_replica&) = default;
  };
  struct host_room {
    const node_state* node = nullptr;
    size_t first = 0, last = 0; ///< devices
    struct memory memory;
    std::vector<counted_replica> replicas;
    std::vector<std::string> cached; ///< contents
    friend bool operator==(const host_room&, const host_room&) = default;
  };

  struct device_change {
    size_t device;
    device_room before;
  };
  struct memory_change {
    size_t host;
    std::string content;
    std::optional<taken> before;
    uint64_t leaving;
  };
  struct replica_change {
    size_t host;
    counted_replica replica;
  };
  using change = std::variant<device_change, memory_change, replica_change>;

  /// Whether a replica can use a bundle from a node's own disk.
  bool is_on_disk(size_t host, const model_info& its) const;
  /// `need(kind)`: the need on a device of a kind.
  template <class Need, class Pass>
  std::optional<size_t> first_of(device_order by, const replica_group& group,
                                 const Need& need, const Pass& pass) const;
  void rebuild();
  bool is_like_before(const std::set<std::string>& nodes) const;
  void read_devices(size_t host);
  void read_replicas(size_t host);
  void forget_replicas(size_t host);
  void count(size_t host, const counted_replica& replica, bool there);
  void refresh(size_t device);
  template <class Change>
  void change_device(size_t device, Change change);
  void note_memory(size_t host, const std::string& content);
  uint64_t add(size_t host, const std::string& model, uint64_t version,
               const layer_range& layers);
  footprint footprint_on(size_t host, const device_info& device,
                         const replica_group& group) const;
  uint64_t activations(const model_info& its, const layer_range& layers,
                       const device_info& device,
                       const replica_group& group) const;
  capacity_need need_of(const replica_group& group, const std::string& kind,
                        bool whole) const;
  std::vector<size_t> named_devices(const std::string& selector) const;
  std::optional<std::vector<size_t>>
  few_holders(const replica_group& group) const;
  const presence* find(const replica_group& group) const;
  void undo_to(size_t mark);

  const cluster_view* view_;
  std::set<std::string> completed_;
  std::shared_ptr<const cost_book> costs_;
  bundle_map bundles_;
  std::vector<device_room> all_;
  std::vector<host_room> hosts_;               ///< in the order of their names
  std::map<std::string, size_t> numbers_;      ///< of nodes
  std::map<std::string, capacity_tree> trees_; ///< by kind
  std::vector<std::pair<capacity_tree*, size_t>> places_; ///< by device
  std::map<std::string, std::vector<size_t>> by_id_;      ///< devices
  std::map<model_key, presence> models_;
  std::map<std::string, std::set<size_t>> cached_; ///< nodes, by content
  size_t fetching_ = 0; ///< nodes that fetch bundles from others
  /// Model, version, layers, kind, share, threads, batch.
  using activation_key = std::tuple<std::string, uint64_t, layer_range,
                                    std::string, double, uint64_t, uint64_t>;
  mutable std::map<activation_key, uint64_t> activations_;
  std::vector<change> journal_; ///< changes that open reservations may undo
  size_t reservations_ = 0;
};

/// Bookings on a capacity index that end with the reservation, unless they are
/// committed. Reservations nest.
class capacity_reservation {
public:
  explicit capacity_reservation(device_capacity& room)
    : room_(room),
      mark_(room.journal_.size()) {
    ++room.reservations_;
  }
  capacity_reservation(const capacity_reservation&) = delete;
  ~capacity_reservation();

  const device_capacity& room() const { return room_; }
  void book(size_t device, const replica_group& group) {
    room_.book(device, group);
  }

  /// Undoes the bookings since the reservation began.
  void undo() { room_.undo_to(mark_); }

  /// Keeps the bookings.
  void commit() { mark_ = room_.journal_.size(); }

private:
  device_capacity& room_;
  size_t mark_;
};

template <class Need, class Pass>
std::optional<size_t>
device_capacity::first_of(device_order by, const replica_group& group,
                          const Need& need, const Pass& pass) const {
  std::optional<capacity_tree::found> best;
  auto try_one = [&](size_t at) {
    auto& [tree, place] = places_[at];
    auto& is = tree->at(place);
    capacity_tree::found found{is.rank(by), at};
    if (found.first != capacity_summary::none
        && need(all_[at].device->kind).is_met_by(is) && (!best || found < *best)
        && pass(at))
      best = found;
  };
  if (auto few = few_holders(group)) {
    for (auto host : *few)
      for (auto at = hosts_[host].first; at < hosts_[host].last; ++at)
        try_one(at);
  } else {
    for (auto& [kind, tree] : trees_)
      if (group.device.empty() || group.device == kind)
        tree.search(by, need(kind), best, pass);
    for (auto at : named_devices(group.device))
      try_one(at);
  }
  return best ? std::optional{best->second} : std::nullopt;
}

} // namespace millrace
