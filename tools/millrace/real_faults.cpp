// SPDX-License-Identifier: Apache-2.0
#include "millrace/real_faults.hpp"

#include <algorithm>

#include "client/operator_client.hpp"
#include "runtime/text.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

constexpr microseconds patience = 2s;

/// Whether a node has a ready replica at the place of a fault.
bool is_used(const node_status& node, const place_in_use& place) {
  return std::any_of(node.replicas.begin(), node.replicas.end(), [&](auto& r) {
    return r.state == replica_condition::ready && r.what.model == place.model
           && (!place.first_layer || r.what.layers.first == *place.first_layer);
  });
}

} // namespace

result<void> check_real_faults(const std::vector<fault_spec>& all) {
  for (auto& x : all)
    if ((x.kind != fault_kind::kill && x.kind != fault_kind::slow) || !x.at
        || (x.kind == fault_kind::kill && x.lasts > 0us))
      return error{ec::bad_request,
                   "a real run makes faults of kind slow with 'at', and of kind"
                   " kill with 'at' and without 'lasts'; found kind "
                     + std::string{to_string(x.kind)},
                   {}};
  return {};
}

real_faults::real_faults(
  const loaded_scenario& what, std::string operators,
  std::map<std::string, std::unique_ptr<service>>& services)
  : what_(what),
    operators_(std::move(operators)),
    services_(services) {
  for (auto& x : what.spec.faults)
    steps_.push_back({x.at.value_or(0us), &x, false});
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](auto& a, auto& b) { return a.at < b.at; });
}

result<void> real_faults::apply(microseconds since) {
  while (next_ < steps_.size() && steps_[next_].at <= since) {
    auto x = steps_[next_++];
    if (auto done = make(x); !done)
      return done;
    if (x.ends || x.what->lasts <= 0us || x.what->kind != fault_kind::slow)
      continue;
    x.ends = true;
    x.at += x.what->lasts;
    auto after = std::upper_bound(
      steps_.begin() + static_cast<ptrdiff_t>(next_), steps_.end(), x,
      [](auto& a, auto& b) { return a.at < b.at; });
    steps_.insert(after, std::move(x));
  }
  return {};
}

result<void> real_faults::make(step& next) {
  if (!next.ends) {
    auto nodes = nodes_for(*next.what);
    if (!nodes)
      return nodes.failure();
    next.nodes = std::move(*nodes);
  }
  for (auto& node : next.nodes) {
    if (next.what->kind == fault_kind::kill) {
      services_.at(node)->kill();
      continue;
    }
    if (auto done = slow(node, next.ends ? 1 : next.what->factor); !done)
      return done;
  }
  return {};
}

/// As in the simulator, but of several nodes in use the first by name.
result<std::vector<std::string>>
real_faults::nodes_for(const fault_spec& fault) const {
  std::vector<std::string> out;
  for (auto& place : fault.nodes) {
    auto used = parse_place_in_use(place);
    if (!used) {
      auto named = nodes_of(what_, place);
      out.insert(out.end(), named.begin(), named.end());
      continue;
    }
    auto cluster = operator_client::connect(operators_, patience);
    if (!cluster)
      return cluster.failure();
    for (auto& [name, node] : what_.cluster.nodes) {
      if (node.devices.empty())
        continue;
      auto status =
        cluster->ask<node_status>(name + "/supervisor", get_status{}, patience);
      if (status && is_used(*status, *used)) {
        out.push_back(name);
        break;
      }
    }
  }
  if (fault.nodes.empty())
    for (auto& [name, node] : what_.cluster.nodes)
      if (!node.devices.empty())
        out.push_back(name);
  return out;
}

result<void> real_faults::slow(const std::string& node, double factor) const {
  auto cluster = operator_client::connect(operators_, patience);
  if (!cluster)
    return cluster.failure();
  auto status =
    cluster->ask<node_status>(node + "/supervisor", get_status{}, patience);
  if (!status)
    return status.failure();
  for (auto& device : status->devices)
    if (auto done = cluster->ask<ack>(node + "/supervisor",
                                      slow_device{device.id, factor}, patience);
        !done)
      return done.failure();
  return {};
}

} // namespace millrace
