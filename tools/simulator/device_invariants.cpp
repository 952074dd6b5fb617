// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "simulator/invariants.hpp"

namespace millrace::simulator {

namespace {

/// I31: No device runs more batches at once than its configured sharing admits,
/// in total and per replica, whichever gateways send them.
class shared_as_configured : public invariant {
public:
  explicit shared_as_configured(const expectations& x)
    : invariant("I31"),
      what_(*x.what) {}

  void on_executed(const executed_batch& batch) override {
    runs_[{batch.where.node, batch.where.device}].push_back(
      {batch.started, batch.ended, batch.instance,
       concurrency_of(batch.model)});
  }

  void at_end(simulation&) override {
    for (auto& [place, runs] : runs_) {
      auto& [node, id] = place;
      for (auto& device : what_.cluster.nodes.at(node).devices)
        if (device.id == id)
          check(device_name{node, id}, device, runs);
    }
  }

private:
  struct batch_interval {
    timestamp started;
    timestamp ended;
    instance_id instance;
    int64_t concurrency; ///< of its replica; 0: no limit
  };
  /// 0: no limit.
  int64_t concurrency_of(const std::string& model) const {
    for (auto& x : what_.cluster.models)
      if (x.model == model)
        return static_cast<int64_t>(x.concurrency);
    return 0;
  }

  /// When the number of running batches changes, by how much, and the replica.
  using replica_key = std::pair<instance_id, int64_t>; ///< and its concurrency
  using change = std::tuple<timestamp, int, replica_key>;

  void check(const device_name& where, const device_config& device,
             const std::vector<batch_interval>& runs) {
    std::vector<change> changes;
    for (auto& x : runs) {
      // Instance numbers are reused for other models when a node restarts.
      replica_key key{x.instance, x.concurrency};
      changes.emplace_back(x.started, 1, key);
      changes.emplace_back(x.ended, -1, key);
    }
    // A batch that begins when another ends does not overlap with it.
    std::sort(changes.begin(), changes.end());
    int64_t most = device.sharing.most_at_once(device.lanes_or_default());
    int64_t running = 0;
    std::map<replica_key, int64_t> of_replica;
    for (auto& [when, by, replica] : changes) {
      running += by;
      auto& mine = of_replica[replica] += by;
      if (running > most)
        broken(when, to_string(where) + " runs " + std::to_string(running)
                       + " batches at once, of at most "
                       + std::to_string(most));
      auto most_of_replica = replica.second;
      if (auto limit = int64_t{device.sharing.per_replica}; limit > 0)
        most_of_replica =
          most_of_replica == 0 ? limit : std::min(limit, most_of_replica);
      if (most_of_replica > 0 && mine > most_of_replica)
        broken(when, to_string(where) + " runs " + std::to_string(mine)
                       + " batches of one replica at once, of at most "
                       + std::to_string(most_of_replica));
    }
  }

  const loaded_scenario& what_;
  std::map<std::pair<std::string, std::string>, std::vector<batch_interval>>
    runs_; ///< by node and device
};

} // namespace

void add_device_invariants(const expectations& expected, invariant_list& out) {
  out.push_back(std::make_unique<shared_as_configured>(expected));
}

} // namespace millrace::simulator
