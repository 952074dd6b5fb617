// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "actors/policies/registry.hpp"
#include "tests/support/cluster_views.hpp"

/// \file
/// Hosts with several devices, and the devices that policies choose there.

namespace millrace::test::views {

/// A bundle of two layers that other hosts can fetch.
inline model_info bundle_of_size(const std::string& model, uint64_t bytes) {
  model_info out;
  out.model = model;
  out.version = 1;
  out.bytes = 2 * bytes;
  out.layer_bytes = {bytes, bytes};
  out.content = "content of " + model;
  return out;
}

inline replica_group group_of(const std::string& model,
                              layer_range layers = {0, 2}, uint64_t units = 0) {
  replica_group out;
  out.id = "s/" + model + "/" + std::to_string(layers.first);
  out.model = model;
  out.version = 1;
  out.layers = layers;
  out.cut = layers == layer_range{0, 2} ? "whole" : "1";
  out.stage = layers.first;
  out.units = units;
  return out;
}

inline replica_status replica_on(const replica_group& x, const node_state& node,
                                 const std::string& device, int number,
                                 replica_condition state) {
  replica_status out;
  out.what.replica = x.model + ".1." + std::to_string(number);
  out.what.model = x.model;
  out.what.version = 1;
  out.what.layers = x.layers;
  out.what.node = node.node.name;
  out.what.device = device;
  out.what.units = x.units;
  out.what.content = "content of " + x.model;
  out.state = state;
  out.memory = 100;
  return out;
}

/// Hosts with devices of 1,000 bytes and 100 units each; all can fetch
/// the bundles of models m and n, which h1 has on its disk.
inline cluster_view hosts_with_devices(size_t hosts, size_t devices) {
  cluster_view out;
  for (size_t h = 1; h <= hosts; ++h) {
    node_state x;
    x.node.name = "h" + std::to_string(h);
    x.fetches = true;
    for (size_t d = 0; d < devices; ++d)
      x.devices.push_back(
        {"gpu" + std::to_string(d), "v100", 1, {1000}, {}, false, 100});
    if (h == 1)
      x.models = {bundle_of_size("m", 100), bundle_of_size("n", 50)};
    out.nodes[x.node.name] = x;
  }
  return out;
}

/// The devices that a policy chooses, as names, in the order of choice.
inline std::vector<std::string>
places_of(const std::string& policy, device_capacity& room,
          const std::vector<placement_request>& wanted,
          const option_texts& options = {}) {
  auto made = make_placement_policy({policy, options});
  REQUIRE(made);
  capacity_reservation trial{room};
  auto map = (*made)->place({}, wanted, trial);
  std::vector<std::string> out;
  for (auto& x : map.chosen)
    out.push_back(room[x.device].node->node.name + "/"
                  + room[x.device].device->id);
  return out;
}

inline std::vector<std::string> places_of(const std::string& policy,
                                          const cluster_view& view,
                                          const replica_group& group,
                                          uint64_t missing,
                                          const option_texts& options = {}) {
  device_capacity room{view, {}};
  return places_of(policy, room, {{&group, 0, missing}}, options);
}

using names = std::vector<std::string>;

} // namespace millrace::test::views
