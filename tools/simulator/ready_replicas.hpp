// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "config/scenario_faults.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// Tracks the nodes that have a ready replica (loaded onto a device) of a model
/// or of some of its layers.
class ready_replicas : public watcher {
public:
  /// The nodes with a ready replica, sorted by name.
  std::vector<std::string> nodes_with(const place_in_use& used) const {
    std::set<std::string> out;
    for (auto& [place, what] : replicas_)
      if (what.model == used.model
          && what.first_layer == used.first_layer.value_or(what.first_layer))
        out.insert(std::get<0>(place));
    return {out.begin(), out.end()};
  }

  void on_loaded(const device_name& where, const load_request& request,
                 timestamp, const result<load_report>& how,
                 timestamp) override {
    if (how)
      replicas_[{where.node, where.device, request.instance}] = {
        request.content->info.name, request.first_layer};
  }
  void on_unloaded(const device_name& where, instance_id instance,
                   timestamp) override {
    replicas_.erase({where.node, where.device, instance});
  }

private:
  using replica_place = std::tuple<std::string, std::string, instance_id>;

  struct loaded {
    std::string model;
    uint64_t first_layer = 0;
  };

  std::map<replica_place, loaded> replicas_;
};

} // namespace millrace::simulator
