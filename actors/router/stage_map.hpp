// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "actors/policies/dispatch/dispatcher.hpp"

namespace millrace {

/// The replicas of a model, whole or in parts, and the paths through them. A
/// pipeline is no object: it exists while each part, from layer 0 on, reaches a
/// replica of the next layers. Pure.
class stage_map {
public:
  using replica_id = dispatcher::replica_id;
  static constexpr replica_id nobody = 0;

  stage_map(dispatch_policy how, random_stream random)
    : how_(how),
      random_(random) {}

  /// Adds a replica of these layers, of `layers` in the model. Opens a replica
  /// that was closed.
  void add(replica_id replica, const layer_range& has, uint64_t layers);

  /// The replica drains: it takes no new batches, and batches of earlier stages
  /// only while no open replica can.
  void close(replica_id replica);

  /// The replica takes no batches and is on no path.
  void release(replica_id replica);

  void remove(replica_id replica);

  /// The link between two replicas is broken: no path uses it until join, or
  /// until one of the two is removed.
  void sever(replica_id from, replica_id to);
  void join(replica_id from, replica_id to);

  /// Sets the batches that the replica accepts now.
  void set_credit(replica_id replica, uint32_t credit);

  /// Weight as in tunables. Replicas get batches in proportion to it.
  void set_weight(replica_id replica, double weight);

  /// The replica was given a batch.
  void given(replica_id replica) {
    replicas_.at(replica).among->given(replica);
  }

  /// Changes the dispatch policy.
  void adopt(dispatch_policy how);

  /// A replica for the layers from `layer` on, with credit and a path to the
  /// last layer. Here and below `from` is the replica that forwards the batch.
  std::optional<replica_id> next(uint64_t layer,
                                 replica_id from = nobody) const;

  /// The same, among the replicas that `fits` admits. Linear in replicas.
  template <class F>
  std::optional<replica_id> next_of(uint64_t layer, replica_id from,
                                    F fits) const;

  /// Whether a path from this layer to the last exists, draining replicas
  /// included, credit or not.
  bool leads_on(uint64_t layer, replica_id from = nobody) const;

  /// Whether such a path exists over open replicas only.
  bool is_open(uint64_t layer, replica_id from = nobody) const;

private:
  enum class condition { open, closed, released };
  struct replica {
    layer_range has;
    uint32_t credit = 0;
    double weight = 1;
    condition is = condition::open;
    bool leads = false;          ///< has a path over open replicas
    bool leads_late = false;     ///< has a path, closed replicas included
    dispatcher* among = nullptr; ///< of replicas with the same first layer
  };

  dispatcher& at(uint64_t layer);
  bool reaches(replica_id from, replica_id to) const {
    return severed_.empty() || !severed_.contains({from, to});
  }
  bool any_leads(uint64_t layer, replica_id from, bool replica::*how) const;
  void find_ways();
  void renew_dispatchers();

  dispatch_policy how_;
  bool weighted_ = false; ///< replicas have different weights
  random_stream random_;
  uint64_t layers_ = 1; ///< layers of the model
  size_t closed_ = 0;   ///< closed replicas
  std::unordered_map<replica_id, replica> replicas_;
  std::set<std::pair<replica_id, replica_id>> severed_;
  /// Dispatchers by first layer of their replicas.
  std::map<uint64_t, std::unique_ptr<dispatcher>> by_first_;
};

template <class F>
std::optional<stage_map::replica_id>
stage_map::next_of(uint64_t layer, replica_id from, F fits) const {
  auto late = layer != 0 && closed_ > 0 && !is_open(layer, from);
  std::optional<replica_id> out;
  uint32_t most = 0;
  for (auto& [id, r] : replicas_) {
    if (r.has.first != layer || !(late ? r.leads_late : r.leads)
        || !reaches(from, id) || !fits(id))
      continue;
    if (r.credit > most || (out && r.credit == most && id < *out)) {
      most = r.credit;
      out = id;
    }
  }
  return out;
}

} // namespace millrace
