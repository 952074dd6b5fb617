// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// Nodes with a ready replica of a model or of some of its layers: one that is
/// loaded onto a device.
class ready_replicas : public watcher {
public:
  /// In order of their names.
  std::vector<std::string> nodes_with(const std::string& model) const {
    std::set<std::string> out;
    for (auto& [replica, name] : models_)
      if (name == model)
        out.insert(std::get<0>(replica));
    return {out.begin(), out.end()};
  }

  void on_loaded(const device_name& where, const load_request& x, timestamp,
                 const result<load_report>& how, timestamp) override {
    if (how)
      models_[{where.node, where.device, x.instance}] = x.content->info.name;
  }
  void on_unloaded(const device_name& where, instance_id x,
                   timestamp) override {
    models_.erase({where.node, where.device, x});
  }

private:
  using replica_place = std::tuple<std::string, std::string, instance_id>;

  std::map<replica_place, std::string> models_;
};

} // namespace millrace::simulator
