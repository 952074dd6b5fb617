// SPDX-License-Identifier: Apache-2.0

/// \file
/// Queries of the capacity index.

#include <algorithm>
#include <iterator>
#include <numeric>

#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/costs.hpp"
#include "actors/policies/state/device_capacity.hpp"

namespace millrace {

bool device_capacity::is_on_disk(size_t host, const model_info& its) const {
  auto& node = *hosts_[host].node;
  if (bundles_.on_disk(host, its.model, its.version) != nullptr)
    return true;
  auto is_held = std::any_of(node.held.begin(), node.held.end(),
                             [&](auto& x) { return x.content == its.content; });
  return has_kept(node, its) && !is_held;
}

size_t device_capacity::of(const placed_replica& replica) const {
  auto i = numbers_.find(*replica.node);
  if (i == numbers_.end())
    return size();
  auto& host = hosts_[i->second];
  for (auto at = host.first; at < host.last; ++at)
    if (all_[at].device->id == replica.status->what.device)
      return at;
  return size();
}

uint64_t device_capacity::activations(const model_info& its,
                                      const layer_range& layers,
                                      const device_info& device,
                                      const replica_group& group) const {
  if (!costs_ || !costs_->profiles.contains(its.model))
    return 0;
  auto rows = std::max(group.batch_max, group.tuned.batch);
  auto threads = group.tuned.threads;
  activation_key key{its.model,   its.version, layers, device.kind,
                     group.share, threads,     rows};
  if (auto i = activations_.find(key); i != activations_.end())
    return i->second;
  auto known = activation_bytes(
    costs_.get(), {&its, layers, device.kind, group.share, threads},
    static_cast<double>(rows));
  return activations_[key] = known ? static_cast<uint64_t>(known->value) : 0;
}

footprint device_capacity::footprint_on(size_t host, const device_info& device,
                                        const replica_group& group) const {
  auto* its =
    bundles_.for_node(host, *hosts_[host].node, group.model, group.version);
  if (its == nullptr)
    return {0, 0, group.units};
  auto all = whole_of(*its);
  auto bytes = millrace::bytes_of(*its, group.layers)
               + activations(*its, group.layers, device, group);
  return {bytes,
          completed_.contains(group.model)
            ? its->bytes + activations(*its, all, device, group)
            : bytes,
          group.units};
}

footprint device_capacity::of(const device_room& on,
                              const replica_group& group) const {
  return footprint_on(on.host, *on.device, group);
}

/// A host with other layers of the bundle fetches the whole bundle.
uint64_t device_capacity::memory::more_for(const model_info& its,
                                           const layer_range& layers) const {
  auto bytes = millrace::bytes_of(its, layers);
  auto i = by_content.find(its.content);
  if (i == by_content.end())
    return bytes;
  auto& [there, of] = i->second;
  auto most = !of || *of == layers ? bytes : its.bytes;
  return most - std::min(most, there);
}

uint64_t device_capacity::memory::sum() const {
  return std::accumulate(
    by_content.begin(), by_content.end(), uint64_t{0},
    [](auto sum, auto& entry) { return sum + entry.second.bytes; });
}

bool device_capacity::can_get(const device_room& on, const replica_group& group,
                              uint64_t freed) const {
  auto& node = *on.node;
  if (node.cache_memory == 0)
    return true;
  auto* its = bundles_.for_node(on.host, node, group.model, group.version);
  if (its == nullptr || is_on_disk(on.host, *its))
    return true;
  auto& there = hosts_[on.host].memory;
  auto more = there.more_for(*its, group.layers);
  return more == 0 || there.sum() + more <= node.cache_memory + freed;
}

bool device_capacity::has_bundle(const device_room& on,
                                 const replica_group& group) const {
  return bundles_.for_node(on.host, *on.node, group.model, group.version)
         != nullptr;
}

uint64_t device_capacity::bytes_of(const device_room& on,
                                   const replica_group& group) const {
  auto* its = bundles_.for_node(on.host, *on.node, group.model, group.version);
  return its == nullptr ? 0 : millrace::bytes_of(*its, group.layers);
}

/// A lower bound of the need of a replica on a device of a kind; exact when all
/// nodes with its bundle have the same one.
capacity_need device_capacity::need_of(const replica_group& group,
                                       const std::string& kind,
                                       bool whole) const {
  capacity_need out{0, whole, group.units};
  auto* its = bundles_.only(group.model, group.version);
  if (its == nullptr)
    return out;
  device_info device;
  device.kind = kind;
  auto all = whole && completed_.contains(group.model);
  auto layers = all ? whole_of(*its) : group.layers;
  out.bytes =
    millrace::bytes_of(*its, layers) + activations(*its, layers, device, group);
  return out;
}

/// Devices with the id of the selector, on any node or on the named node.
std::vector<size_t>
device_capacity::named_devices(const std::string& selector) const {
  if (selector.empty())
    return {};
  if (auto i = by_id_.find(selector); i != by_id_.end())
    return i->second;
  auto slash = selector.find('/');
  auto host = numbers_.find(selector.substr(0, slash));
  std::vector<size_t> out;
  if (slash == std::string::npos || host == numbers_.end())
    return out;
  auto id = selector.substr(slash + 1);
  auto [first, last] = devices_of(host->second);
  for (auto at = first; at < last; ++at)
    if (all_[at].device->id == id)
      out.push_back(at);
  return out;
}

/// The nodes with a bundle, if there are few and no other node can fetch it.
std::optional<std::vector<size_t>>
device_capacity::few_holders(const replica_group& group) const {
  auto* its = bundles_.any(group.model, group.version);
  auto travels = its != nullptr && !its->content.empty() && fetching_ > 0;
  if (travels
      || bundles_.holder_count(group.model, group.version) > hosts_.size() / 2)
    return std::nullopt;
  return bundles_.holders(group.model, group.version);
}

const device_capacity::presence*
device_capacity::find(const replica_group& group) const {
  auto i = models_.find({group.model, group.version});
  return i == models_.end() ? nullptr : &i->second;
}

std::vector<size_t>
device_capacity::hosts_with(const replica_group& group) const {
  std::vector<size_t> loaded, out;
  if (auto* is = find(group))
    for (auto& [host, n] : is->loaded)
      loaded.push_back(host);
  auto* its = bundles_.any(group.model, group.version);
  if (its == nullptr || its->content.empty())
    return loaded;
  auto i = cached_.find(its->content);
  if (i == cached_.end())
    return loaded;
  std::set_union(loaded.begin(), loaded.end(), i->second.begin(),
                 i->second.end(), std::back_inserter(out));
  return out;
}

std::vector<size_t>
device_capacity::hosts_awaiting(const replica_group& group) const {
  std::vector<size_t> out;
  auto* is = find(group);
  if (is == nullptr || is->starting.empty())
    return out;
  auto there = hosts_with(group);
  for (auto& [host, n] : is->starting)
    if (!std::binary_search(there.begin(), there.end(), host))
      out.push_back(host);
  return out;
}

const std::map<size_t, uint64_t>*
device_capacity::devices_with(const replica_group& group) const {
  auto* is = find(group);
  return is == nullptr ? nullptr : &is->on;
}

bool device_capacity::has_replica(size_t device,
                                  const replica_group& group) const {
  auto* is = find(group);
  return is != nullptr && is->on.contains(device);
}

bool device_capacity::is_part(const replica_group& group) const {
  auto* its = bundles_.any(group.model, group.version);
  return its != nullptr && group.layers != layer_range{}
         && group.layers != whole_of(*its);
}

} // namespace millrace
