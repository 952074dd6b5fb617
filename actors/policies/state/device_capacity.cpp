// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/device_capacity.hpp"

#include <algorithm>
#include <numeric>

#include "actors/policies/scale/configured_groups.hpp"

namespace millrace {

namespace {

/// The one there that it completes; null when that is gone.
const replica_status* completed_by(const node_state& node,
                                   const replica_status& x) {
  if (x.what.extends_replica.empty())
    return nullptr;
  auto i =
    std::find_if(node.replicas.begin(), node.replicas.end(), [&](auto& y) {
      return y.what.replica == x.what.extends_replica
             && y.state != replica_condition::failed;
    });
  return i == node.replicas.end() ? nullptr : &*i;
}

/// Whether a replica of it can use it where it lies.
bool is_on_disk(const node_state& node, const model_info& its) {
  if (bundle_on(node, its.model, its.version) != nullptr)
    return true;
  auto is_held = std::any_of(node.held.begin(), node.held.end(),
                             [&](auto& x) { return x.content == its.content; });
  return has_kept(node, its) && !is_held;
}

/// The bytes in use of a node's memory for bundles that nobody uses who is
/// there, but for some. What is the last copy stays.
uint64_t used_only_by(const node_state& node,
                      const std::vector<placed_replica>& some) {
  auto is_other = [&](const replica_status& r) {
    return is_there(r) && std::none_of(some.begin(), some.end(), [&](auto& x) {
             return x.status == &r;
           });
  };
  uint64_t out = 0;
  for (auto& x : node.held)
    if (x.used && !x.last
        && std::none_of(
          node.replicas.begin(), node.replicas.end(),
          [&](auto& r) { return r.what.content == x.content && is_other(r); }))
      out += x.bytes;
  return out;
}

} // namespace

device_capacity::device_capacity(const cluster_view& view,
                                 std::set<std::string> completed)
  : view_(&view),
    completed_(std::move(completed)) {
  for (auto& [name, node] : view.nodes) {
    auto first = all_.size();
    for (auto& device : node.devices)
      all_.push_back({&node, &device});
    auto& held = memory_[name];
    held.leaving = used_only_by(node, {});
    for (auto& x : node.held)
      if (x.used || x.last)
        held.by_content[x.content] = {x.bytes, std::nullopt};
    for (auto& r : node.replicas)
      if (r.state == replica_condition::starting)
        add(node, r.what.model, r.what.version, r.what.layers);
      else if (auto i = held.by_content.find(r.what.content);
               i != held.by_content.end())
        i->second.layers = r.what.layers;
    for (auto& r : node.replicas)
      for (auto i = first; i < all_.size(); ++i) {
        auto& p = all_[i];
        if (p.device->id != r.what.device
            || r.state == replica_condition::failed)
          continue;
        auto takes = of(node, r);
        p.take(takes);
        p.load += is_there(r) && completed_by(node, r) == nullptr;
        if (!is_there(r))
          p.leaving += takes.bytes;
      }
  }
}

size_t device_capacity::of(const placed_replica& x) const {
  auto i = std::find_if(all_.begin(), all_.end(), [&](auto& p) {
    return p.node->node.name == *x.node
           && p.device->id == x.status->what.device;
  });
  return static_cast<size_t>(i - all_.begin());
}

footprint device_capacity::of(const node_state& node, const std::string& model,
                              uint64_t version,
                              const layer_range& layers) const {
  auto* its = bundle_for(*view_, node, model, version);
  if (its == nullptr)
    return {};
  auto bytes = millrace::bytes_of(*its, layers);
  return {bytes, completed_.contains(model) ? its->bytes : bytes};
}

footprint device_capacity::of(const node_state& node,
                              const replica_status& x) const {
  // One that starts does not know yet what it takes, one that drains has it
  // still.
  auto out = of(node, x.what.model, x.what.version, x.what.layers);
  out.bytes = std::max(out.bytes, x.memory);
  out.whole = std::max(out.whole, x.memory);
  auto* part = completed_by(node, x);
  return part == nullptr ? out : out.beside(of(node, *part));
}

/// Where other layers of it are there, or will be, all of it comes.
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

/// What is on its own disk is read into memory if there is room for it.
uint64_t device_capacity::add(const node_state& node, const std::string& model,
                              uint64_t version, const layer_range& layers) {
  auto* its = bundle_for(*view_, node, model, version);
  if (its == nullptr || its->content.empty() || node.cache_memory == 0)
    return 0;
  auto& all = memory_[node.node.name];
  auto more = all.more_for(*its, layers);
  if (is_on_disk(node, *its) && all.sum() + more > node.cache_memory)
    return 0;
  auto& part = all.by_content[its->content];
  part.bytes += more;
  part.layers = layers;
  return more;
}

void device_capacity::wait(const node_state& node, const std::string& model,
                           uint64_t version, const layer_range& layers,
                           uint64_t freed) {
  auto takes = add(node, model, version, layers);
  auto& leaving = memory_[node.node.name].leaving;
  leaving += freed;
  leaving -= std::min(leaving, takes);
}

bool device_capacity::can_get(const node_state& node, const std::string& model,
                              uint64_t version, const layer_range& layers,
                              uint64_t freed) const {
  auto* its = bundle_for(*view_, node, model, version);
  if (its == nullptr || node.cache_memory == 0 || is_on_disk(node, *its))
    return true;
  auto& there = memory_.at(node.node.name);
  auto more = there.more_for(*its, layers);
  return more == 0 || there.sum() + more <= node.cache_memory + freed;
}

uint64_t device_capacity::leaving(const node_state& node) const {
  return memory_.at(node.node.name).leaving;
}

uint64_t
device_capacity::freed_by(const node_state& node,
                          const std::vector<placed_replica>& some) const {
  return used_only_by(node, some) - used_only_by(node, {});
}

bool device_capacity::has_bundle(const node_state& node,
                                 const replica_group& x) const {
  return bundle_for(*view_, node, x.model, x.version) != nullptr;
}

uint64_t device_capacity::bytes_of(const node_state& node,
                                   const replica_group& x) const {
  auto* its = bundle_for(*view_, node, x.model, x.version);
  return its == nullptr ? 0 : millrace::bytes_of(*its, x.layers);
}

void device_capacity::book(size_t device, const replica_group& x) {
  auto& p = all_[device];
  p.take(of(*p.node, x.model, x.version, x.layers));
  ++p.load;
  add(*p.node, x.model, x.version, x.layers);
}

} // namespace millrace
