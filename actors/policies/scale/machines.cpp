// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/machines.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "actors/policies/state/configured_groups.hpp"

namespace millrace {

namespace {

/// Tolerance of rounding errors when parts of a device are summed.
constexpr double tolerance = 1e-6;

/// Time for nodes to join after the start of a controller. Before that their
/// room is unknown, and no machine is requested or released.
constexpr microseconds settle = 3s;

/// Entries of the memory; no model can have these names.
const std::string less_since = "//pool/less_since";
const std::string needed_since = "//pool/needed_since";

bool is_of_pool(const cluster_snapshot& in, const std::string& pool,
                const std::string& node) {
  auto i = in.machines.find(node);
  return i != in.machines.end() && i->second->pool == pool;
}

/// Whether a group may have replicas on the device of some machine of a pool.
bool may_use(const replica_group& x, const device_info& device) {
  return x.device.empty() || x.device == device.id || x.device == device.kind;
}

/// The part of a device that models of other scopes leave free.
double free_part(const cluster_snapshot& in, const node_state& node,
                 const device_info& device, const proposal& x,
                 uint64_t replicas) {
  double out = 1;
  for (auto& r : node.replicas) {
    auto its = in.models.find(r.what.model);
    if (r.what.device != device.id
        || (its != in.models.end() && its->second->scope == x.scope))
      continue;
    replica_group as_group;
    as_group.model = r.what.model;
    as_group.layers = r.what.layers;
    as_group.share = r.what.share;
    as_group.units = r.what.units;
    out -= device_part(device, as_group, replicas, in);
  }
  return std::max(0.0, out);
}

/// Machines of a pool that serve or boot.
uint64_t machines_there(const cluster_snapshot& in, const std::string& pool) {
  return static_cast<uint64_t>(
    std::count_if(in.machines.begin(), in.machines.end(), [&](auto& x) {
      return x.second->pool == pool
             && x.second->condition != machine_condition::draining
             && x.second->condition != machine_condition::released;
    }));
}

/// Delays a decrease until less was needed for `idle`; then the largest need of
/// that time counts.
uint64_t held_back(uint64_t needed, uint64_t there, microseconds idle,
                   policy_memory& memory, timestamp now) {
  auto& values = memory.values;
  if (needed >= there) {
    values.erase(less_since);
    values.erase(needed_since);
    return needed;
  }
  auto since = values.try_emplace(less_since, seconds_of(now)).first->second;
  auto& most = values[needed_since];
  most = std::max(most, static_cast<double>(needed));
  if (seconds_of(now) - since < to_seconds(idle))
    return there;
  auto out = static_cast<uint64_t>(most);
  values[less_since] = seconds_of(now);
  most = static_cast<double>(needed);
  return out;
}

} // namespace

double device_part(const device_info& device, const replica_group& group,
                   uint64_t replicas, const cluster_snapshot& in) {
  double out = replicas > 0 ? 1 / static_cast<double>(replicas) : 0;
  if (device.units > 0 && group.units > 0)
    out = std::max(out, static_cast<double>(group.units)
                          / static_cast<double>(device.units));
  auto model = in.models.find(group.model);
  if (device.memory.value > 0 && model != in.models.end())
    out = std::max(
      out, static_cast<double>(bytes_of(model->second->bundle, group.layers))
             / static_cast<double>(device.memory.value));
  out = std::max(out, group.share);
  return out > 0 ? out : 1;
}

uint64_t machines_needed(const cluster_snapshot& in, const std::string& pool,
                         const proposal& proposed) {
  auto found = in.pools.find(pool);
  if (found == in.pools.end() || found->second->devices.empty())
    return 0;
  auto& devices = found->second->devices;
  auto replicas = found->second->settings.replicas;
  auto& device = devices.front();
  double wanted = 0; // devices
  std::vector<const replica_group*> groups;
  for (auto& g : proposed.groups)
    if (g.count > 0 && may_use(g, device)) {
      wanted +=
        static_cast<double>(g.count) * device_part(device, g, replicas, in);
      groups.push_back(&g);
    }
  for (auto& entry : in.nodes) {
    auto& name = entry.first;
    auto& node = entry.second;
    if (node->draining || is_of_pool(in, pool, name))
      continue;
    for (auto& d : node->devices)
      if (std::any_of(groups.begin(), groups.end(), [&](auto* g) {
            return g->device.empty() || selects_device(g->device, name, d);
          }))
        wanted -= free_part(in, *node, d, proposed, replicas);
  }
  if (wanted <= tolerance)
    return 0;
  return static_cast<uint64_t>(
    std::ceil(wanted / static_cast<double>(devices.size()) - tolerance));
}

namespace {

void add_machines(proposal& to, const std::string& pool,
                  const pool_settings& limits, const cluster_snapshot& in,
                  policy_memory& memory, timestamp now) {
  auto needed = std::clamp(machines_needed(in, pool, to),
                           std::min(limits.least, limits.most), limits.most);
  to.machines.push_back({pool, held_back(needed, machines_there(in, pool),
                                         limits.idle, memory, now)});
}

} // namespace

proposal propose_with_machines(const scaling_policy& policy,
                               const std::string& scope,
                               const cluster_snapshot& in,
                               policy_memory& memory, random_stream& random,
                               timestamp now) {
  // A policy finds only its own entries in the memory.
  policy_memory mine;
  for (auto& name : {less_since, needed_since})
    if (auto value = memory.values.extract(name); !value.empty())
      mine.values.insert(std::move(value));
  auto out = policy.propose(in, memory, random, now);
  out.scope = scope;
  auto& pool = in.scopes.at(scope)->settings.pool;
  auto its = in.pools.find(pool);
  if (its != in.pools.end() && out.machines.empty() && in.at >= settle)
    add_machines(out, pool, its->second->settings, in, mine, now);
  memory.values.merge(mine.values);
  return out;
}

timestamp next_due_with_machines(const scaling_policy& policy,
                                 const scope_settings& scope,
                                 const policy_memory& memory, timestamp now) {
  auto out = policy.next_due(memory, now);
  return scope.pool.empty() ? out : std::min(out, now + scope.every);
}

} // namespace millrace
