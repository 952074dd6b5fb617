// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "actors/policies/dispatch/dispatcher.hpp"

namespace millrace {

/// Which replicas a batch can go to, of a model that they have whole or in
/// parts. A pipeline is not kept anywhere: it is there while from the model's
/// first layer on each part leads to another that is there. Pure.
class stage_map {
public:
  using replica_id = dispatcher::replica_id;
  static constexpr replica_id nobody = 0;

  stage_map(dispatch_policy how, random_stream random)
    : how_(how),
      random_(random) {}

  /// A replica of these layers, of so many in all; one that is known already
  /// takes batches again.
  void add(replica_id x, const layer_range& has, uint64_t layers);

  /// It takes no batches that begin now. It still takes those that are on
  /// their way, where nobody else does.
  void close(replica_id x);

  /// It takes none at all, and leads nowhere.
  void release(replica_id x);

  void remove(replica_id x);

  /// What the one hands on does not reach the other: another takes it, and who
  /// has no other leads nowhere. Until they are joined again, or either goes.
  void sever(replica_id from, replica_id to);
  void join(replica_id from, replica_id to);

  /// The batches it takes at once from now on, if it takes any.
  void set_credit(replica_id x, uint32_t credit);

  /// As in tunables. Replicas of unlike weights get batches in proportion.
  void set_weight(replica_id x, double weight);

  /// It was given a batch.
  void given(replica_id x) { replicas_.at(x).among->given(x); }

  /// From now on batches are given otherwise.
  void adopt(dispatch_policy how);

  /// Who takes a batch that this layer is the next for: of those with credit
  /// that lead to the last layer. Here and below `from` is who hands it on.
  std::optional<replica_id> next(uint64_t layer,
                                 replica_id from = nobody) const;

  /// The same, of the replicas that `fits` admits. Looks at all.
  template <class F>
  std::optional<replica_id> next_of(uint64_t layer, replica_id from,
                                    F fits) const;

  /// Whether all layers from this one on are there, credit or not: for what is
  /// on its way.
  bool leads_on(uint64_t layer, replica_id from = nobody) const;

  /// And at replicas that stay.
  bool is_open(uint64_t layer, replica_id from = nobody) const;

private:
  enum class condition { open, closed, released };
  struct replica {
    layer_range has;
    uint32_t credit = 0;
    double weight = 1;
    condition is = condition::open;
    bool leads = false;          ///< by open ones alone to the last layer
    bool leads_late = false;     ///< by any that take what is on its way
    dispatcher* among = nullptr; ///< those that begin with the same layer
  };

  dispatcher& at(uint64_t layer);
  bool reaches(replica_id from, replica_id to) const {
    return severed_.empty() || !severed_.contains({from, to});
  }
  bool any_leads(uint64_t layer, replica_id from, bool replica::*how) const;
  void find_ways();
  void renew_dispatchers();

  dispatch_policy how_;
  bool weighted_ = false; ///< replicas have unlike weights
  random_stream random_;
  uint64_t layers_ = 1; ///< of the model
  size_t closed_ = 0;   ///< replicas
  std::unordered_map<replica_id, replica> replicas_;
  std::set<std::pair<replica_id, replica_id>> severed_;
  /// By the layer that they begin with.
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
