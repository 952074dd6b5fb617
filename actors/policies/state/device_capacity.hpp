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

/// What a replica takes of a device.
struct footprint {
  uint64_t bytes = 0; ///< parameters, and activations of its largest batch
  uint64_t whole = 0; ///< bytes once it has become a whole replica, if it does
  uint64_t units = 0;

  /// Beside one that it shares everything with which that has.
  footprint beside(const footprint& x) const {
    return {bytes - std::min(bytes, x.bytes), whole - std::min(whole, x.whole),
            units - std::min(units, x.units)};
  }
};

/// A device that can get replicas, and how full it is.
struct device_room {
  const node_state* node = nullptr;
  const device_info* device = nullptr;
  size_t host = 0;            ///< number of its node, in the order of names
  size_t load = 0;            ///< replicas
  uint64_t held = 0;          ///< bytes
  uint64_t reserved = 0;      ///< and what parts need to become whole replicas
  uint64_t leaving = 0;       ///< of held: what drains
  uint64_t units = 0;         ///< units that replicas take
  uint64_t units_leaving = 0; ///< of these: what drains

  /// Whether it has so much beside those, of so many bytes.
  bool has_room(uint64_t taken, uint64_t bytes) const {
    auto limit = device->memory.value;
    return limit == 0 || taken + bytes <= limit;
  }

  /// Whether `more` units are free when `taken` units are taken.
  bool has_units(uint64_t taken, uint64_t more) const {
    return device->units == 0 || taken + more <= device->units;
  }

  void take(const footprint& x) {
    held += x.bytes;
    reserved += x.whole;
    units += x.units;
  }

  friend bool operator==(const device_room&, const device_room&) = default;
};

/// The capacity index: the devices of a cluster by number, their load, and
/// trees that find a device for a replica in O(log n) steps. Derived from a
/// cluster view; `follow` takes changes of some nodes over. A
/// capacity_reservation undoes bookings.
class device_capacity {
public:
  /// The view outlives the index. Models in `completed` have parts that become
  /// whole replicas. `costs` gives the memory of activations; null: none.
  device_capacity(const cluster_view& view, std::set<std::string> completed,
                  std::shared_ptr<const cost_book> costs = {});
  device_capacity(const device_capacity&) = delete;

  /// Takes over what changed in the view: all of the named nodes, which may
  /// have joined or left. Only without a reservation. Costs as much as the
  /// named nodes have replicas and devices; as much as the constructor when
  /// nodes, devices, bundles, profiles or completed models are others.
  void follow(const std::set<std::string>& nodes,
              const std::set<std::string>& completed,
              std::shared_ptr<const cost_book> costs);

  size_t size() const { return all_.size(); }
  const device_room& operator[](size_t i) const { return all_[i]; }

  /// Its device, by number; size() when its node does not say it has that.
  size_t of(const placed_replica& x) const;

  /// Memory and units that a replica of a group takes on a device of a node
  /// that has the bundle or can fetch it.
  footprint of(const device_room& on, const replica_group& x) const;

  /// What a replica takes that is there. One that completes another is as large
  /// as what they do not share.
  footprint of(const node_state& node, const replica_status& x) const;

  /// Whether a node has memory for layers that others have to give it, beside
  /// what is in use there or will be, when so many bytes of that are free. What
  /// is on its own disk needs none.
  bool can_get(const device_room& on, const replica_group& x,
               uint64_t freed = 0) const;

  /// Of a node's memory for bundles, what is in use only by what leaves, and
  /// that nobody waits for.
  uint64_t leaving(const device_room& on) const {
    return hosts_[on.host].memory.leaving;
  }

  /// What else is in use there only by these.
  uint64_t freed_by(const node_state& node,
                    const std::vector<placed_replica>& some) const;

  /// Whether the node of a device has the bundle of a group, or can fetch it.
  bool has_bundle(const device_room& on, const replica_group& x) const;

  /// Bytes of the parameters of a group's layers; 0 when the node neither has
  /// nor can fetch the bundle.
  uint64_t bytes_of(const device_room& on, const replica_group& x) const;

  /// Books a replica of the group on a device.
  void book(size_t device, const replica_group& x);

  /// Books a whole replica beside the part that it completes: `more` is the
  /// room that it takes beside the part.
  void extend(size_t device, const replica_group& x, const footprint& more);

  /// Books a replica that starts once what drains has left, and the replicas
  /// that free so much more of the node's memory for bundles.
  void wait(size_t device, const replica_group& x, uint64_t freed,
            bool counts_as_load);

  /// A replica on the device drains.
  void leave(size_t device, const footprint& x);

  /// The first device in an order that has room for a replica as far as the
  /// index knows, that a group's selector names, and that passes. `whole`: room
  /// for all layers, as has_room has it. Draining nodes are left out.
  template <class Pass>
  std::optional<size_t> first_device(device_order by, const replica_group& x,
                                     bool whole, const Pass& pass) const {
    return first_of(
      by, x, [&](auto& kind) { return need_of(x, kind, whole); }, pass);
  }

  /// The first device in an order, whatever room it has.
  template <class Pass>
  std::optional<size_t> first_device(device_order by, const replica_group& x,
                                     const Pass& pass) const {
    return first_of(
      by, x, [](auto&) { return capacity_need{}; }, pass);
  }

  /// Numbers of nodes that have the data of a group's model in memory: of a
  /// replica that has loaded, or in the cache.
  std::vector<size_t> hosts_with(const replica_group& x) const;

  /// Numbers of nodes where the first replica of the model starts.
  std::vector<size_t> hosts_awaiting(const replica_group& x) const;

  size_t host_count() const { return hosts_.size(); }

  /// Numbers of the devices with replicas of the group's model and version, and
  /// how many they have; null: none has any.
  const std::map<size_t, uint64_t>* devices_with(const replica_group& x) const;

  /// Whether a replica of the group's model and version is on a device.
  bool has_replica(size_t device, const replica_group& x) const;

  /// Whether a group is a part of its model.
  bool is_part(const replica_group& x) const;

  /// The devices of a node: the first, and the one after the last.
  std::pair<size_t, size_t> devices_of(size_t host) const {
    return {hosts_[host].first, hosts_[host].last};
  }

  /// Whether two indexes of one view are alike, journals left out.
  friend bool operator==(const device_capacity& x, const device_capacity& y) {
    return x.all_ == y.all_ && x.hosts_ == y.hosts_ && x.trees_ == y.trees_
           && x.models_ == y.models_ && x.cached_ == y.cached_
           && x.bundles_ == y.bundles_ && x.by_id_ == y.by_id_
           && x.fetching_ == y.fetching_;
  }

private:
  friend class capacity_reservation;

  /// What a content takes of a node's memory for bundles.
  struct taken {
    uint64_t bytes = 0;
    std::optional<layer_range> layers; ///< none: it is not known which
    friend bool operator==(const taken&, const taken&) = default;
  };
  /// A node's memory for bundles, as it is or will be.
  struct memory {
    std::map<std::string, taken> by_content;
    uint64_t leaving = 0; ///< bytes of that

    uint64_t sum() const;
    uint64_t more_for(const model_info& its, const layer_range& layers) const;
    friend bool operator==(const memory&, const memory&) = default;
  };
  /// Where the data of one model and version are.
  struct presence {
    std::map<size_t, uint64_t> loaded, starting; ///< replicas, by node
    std::map<size_t, uint64_t> on;               ///< replicas, by device
    friend bool operator==(const presence&, const presence&) = default;
  };
  using model_key = std::pair<std::string, uint64_t>;
  /// A replica as `models_` counts it.
  struct counted_replica {
    model_key model;
    std::optional<size_t> device; ///< none: it drains
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

  /// Whether a replica of a bundle can use it where it lies on a node.
  bool is_on_disk(size_t host, const model_info& its) const;
  /// `need`: of a device of a kind.
  template <class Need, class Pass>
  std::optional<size_t> first_of(device_order by, const replica_group& x,
                                 const Need& need, const Pass& pass) const;
  void rebuild();
  bool is_like_before(const std::set<std::string>& nodes) const;
  void read_devices(size_t host);
  void read_replicas(size_t host);
  void forget_replicas(size_t host);
  void count(size_t host, const counted_replica& x, bool there);
  void refresh(size_t device);
  template <class Change>
  void change_device(size_t device, Change change);
  void note_memory(size_t host, const std::string& content);
  uint64_t add(size_t host, const std::string& model, uint64_t version,
               const layer_range& layers);
  footprint footprint_on(size_t host, const device_info& device,
                         const replica_group& x) const;
  uint64_t activations(const model_info& its, const layer_range& layers,
                       const device_info& device, const replica_group& x) const;
  capacity_need need_of(const replica_group& x, const std::string& kind,
                        bool whole) const;
  std::vector<size_t> named_devices(const std::string& selector) const;
  std::optional<std::vector<size_t>> few_holders(const replica_group& x) const;
  const presence* find(const replica_group& x) const;
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
  std::vector<change> journal_; ///< what open reservations may undo
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
  void book(size_t device, const replica_group& x) { room_.book(device, x); }

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
device_capacity::first_of(device_order by, const replica_group& x,
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
  if (auto few = few_holders(x)) {
    for (auto host : *few)
      for (auto at = hosts_[host].first; at < hosts_[host].last; ++at)
        try_one(at);
  } else {
    for (auto& [kind, tree] : trees_)
      if (x.device.empty() || x.device == kind)
        tree.search(by, need(kind), best, pass);
    for (auto at : named_devices(x.device))
      try_one(at);
  }
  return best ? std::optional{best->second} : std::nullopt;
}

} // namespace millrace
