// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/parts/start_plan.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "actors/policies/state/cluster_view.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/costs.hpp"
#include "models/partition/layer_costs.hpp"

namespace millrace {

namespace {

/// Whether a worker holds the bundle in memory or on disk. Inventories of
/// controllers also list bundles in object stores.
bool is_held(const node_state& node, const model_info& x) {
  auto has = [&](auto& all) {
    return std::any_of(all.begin(), all.end(), [&](auto& y) {
      return !x.content.empty() && y.content == x.content;
    });
  };
  return has(node.held) || has(node.kept)
         || (has(node.models) && !node.node.has_role("controller"));
}

bool is_loaded(const node_state& node, const model_state& x) {
  auto whole = whole_of(x.bundle);
  return std::any_of(node.replicas.begin(), node.replicas.end(), [&](auto& r) {
    return r.what.model == x.settings.model && r.what.version == x.version
           && r.what.layers == whole && r.state == replica_condition::ready;
  });
}

/// Devices of a node without a replica of the model that have room for one.
uint64_t free_devices(const node_state& node, const model_state& x) {
  std::set<std::string> taken;
  std::map<std::string, uint64_t> used;
  for (auto& r : node.replicas) {
    if (r.what.model == x.settings.model)
      taken.insert(r.what.device);
    used[r.what.device] += std::max(r.memory, r.what.bytes);
  }
  return static_cast<uint64_t>(
    std::count_if(node.devices.begin(), node.devices.end(), [&](auto& device) {
      auto memory = device.memory.value;
      auto& selector = x.settings.device;
      return (selector.empty()
              || selects_device(selector, node.node.name, device))
             && !taken.contains(device.id)
             && (memory == 0 || used[device.id] + x.bundle.bytes <= memory);
    }));
}

double rounded(double x) {
  if (x <= 0)
    return 0;
  auto unit = std::pow(10, std::floor(std::log10(x)) - 1);
  return std::round(x / unit) * unit;
}

/// Bytes per second of starts from a location; 0: not measured. If several
/// kinds of start were measured, the one with the most bytes counts.
double measured_rate(const cluster_snapshot& in, const model_state& x,
                     const std::string& location) {
  if (!in.costs)
    return 0;
  auto averages = in.costs->averages.find(x.settings.model);
  if (averages == in.costs->averages.end())
    return 0;
  double most = 0, out = 0;
  for (auto& live : averages->second->all) {
    auto start = live.starts.find(location);
    if (start == live.starts.end() || start->second.count == 0
        || start->second.fetch <= 0)
      continue;
    auto bytes = static_cast<double>(bytes_of(x.bundle, live.layers));
    if (bytes > most) {
      most = bytes;
      out = bytes / start->second.fetch;
    }
  }
  return rounded(out);
}

double slowest_link(const cluster_snapshot& in) {
  uint64_t out = 0;
  for (auto& [name, node] : in.nodes)
    if (auto its = node->node.network; !node->devices.empty() && its > 0)
      out = out == 0 ? its : std::min(out, its);
  return out > 0 ? static_cast<double>(out) : host_link{}.rate.bytes_per_second;
}

} // namespace

start_source source_of(const cluster_snapshot& in, const model_state& model,
                       const plan_options& options) {
  start_source out;
  auto somewhere = false;
  for (auto& [name, node] : in.nodes) {
    auto loaded = is_loaded(*node, model);
    somewhere = somewhere || loaded || is_held(*node, model.bundle);
    if (loaded && !node->draining)
      out.primed += free_devices(*node, model);
  }
  if (!somewhere)
    out.location = "stores";
  auto given = somewhere ? options.from_hosts : options.from_stores;
  auto rate = given.bytes_per_second;
  if (rate <= 0)
    rate = measured_rate(in, model, out.location);
  if (rate <= 0)
    rate = options.from_hosts.bytes_per_second;
  out.rate = {rate > 0 ? rate : slowest_link(in)};
  return out;
}

result<start_planner> start_planners::planner_for(const cluster_snapshot& in,
                                                  const model_state& model,
                                                  const plan_options& options) {
  auto& name = model.settings.model;
  error none{
    ec::unavailable, "no profile of all layers of " + name + " is known", {}};
  if (!in.costs)
    return none;
  auto profiles = in.costs->profiles.find(name);
  if (profiles == in.costs->profiles.end())
    return none;
  auto layers = model.bundle.layer_bytes.size();
  const profile* of = nullptr;
  std::string kind;
  for (auto& p : profiles->second->all)
    for (auto& device : devices_in(p))
      if (layers_in(p, device) == layers && layers > 0
          && (kind.empty() || device == model.settings.device)) {
        of = &p;
        kind = device;
      }
  if (of == nullptr)
    return none;
  auto source = source_of(in, model, options);
  auto rate = source.rate.bytes_per_second;
  auto& is = by_model_[name];
  if (is.profiles != profiles->second || is.device != kind || is.rate != rate) {
    auto costs =
      layer_costs_of(*of, kind, 1, {source.rate, host_link{}.latency});
    if (!costs)
      return costs.failure();
    auto most = options.parts_max > 0 ? options.parts_max : layers;
    is = {
      profiles->second,
      kind,
      rate,
      std::make_shared<const partition_planner>(*costs, options.stages, most),
      costs->primed_cold,
      costs->execute};
  }
  start_planner out{is.plans, std::move(source), is.primed_cold, is.execute};
  // A process that is not forked also attaches the model.
  const cost_query whole{&model.bundle, whole_of(model.bundle), kind};
  if (auto start = start_seconds(in.costs.get(), whole, "memory");
      start && start->origin == live_origin)
    out.primed_cold = start->fetch + start->load + start->warm_up;
  return out;
}

uint64_t requests_expected(uint64_t waiting, double rate, double served,
                           double cold, uint64_t most) {
  auto arrive = std::max(0.0, rate - served) * cold;
  auto all = static_cast<double>(waiting) + std::ceil(arrive);
  return static_cast<uint64_t>(std::clamp(all, 1.0, static_cast<double>(most)));
}

} // namespace millrace
