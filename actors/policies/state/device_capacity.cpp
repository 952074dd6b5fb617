// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/device_capacity.hpp"

#include <algorithm>

#include "actors/policies/state/configured_groups.hpp"

namespace millrace {

namespace {

/// Returns the part on the node that a whole replica completes; null: none.
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

/// Bytes of a node's memory for bundles in use only by draining replicas and
/// those in `some`. Last copies are excluded.
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

/// A group with the memory and units of a replica's assignment.
replica_group group_like(const assignment& x) {
  replica_group out;
  out.model = x.model;
  out.version = x.version;
  out.layers = x.layers;
  out.share = x.share;
  out.tuned = x.tuned;
  out.batch_max = x.batch_max;
  out.units = x.units;
  return out;
}

uint64_t free_of(uint64_t limit, uint64_t taken) {
  return limit == 0 ? capacity_summary::none : limit - std::min(limit, taken);
}

/// The free part of a limited resource of a device, in millionths.
uint64_t unused(uint64_t limit, uint64_t taken) {
  constexpr uint64_t all = 1'000'000;
  if (limit == 0)
    return all;
  auto part =
    static_cast<double>(free_of(limit, taken)) / static_cast<double>(limit);
  return static_cast<uint64_t>(all * part);
}

capacity_summary summary_of(const device_room& x) {
  if (x.node->draining)
    return {};
  constexpr uint64_t most_load = (uint64_t{1} << 32) - 1;
  auto memory = x.device->memory.value, units = x.device->units;
  auto left = std::min(unused(memory, x.held), unused(units, x.units));
  auto load = std::min<uint64_t>(x.load, most_load);
  return {load, (left << 32) + (most_load - load), free_of(memory, x.held),
          free_of(memory, x.reserved), free_of(units, x.units)};
}

} // namespace

// -- construction -------------------------------------------------------------

device_capacity::device_capacity(const cluster_view& view,
                                 std::set<std::string> completed,
                                 std::shared_ptr<const cost_book> costs)
  : view_(&view),
    completed_(std::move(completed)),
    costs_(std::move(costs)) {
  rebuild();
}

void device_capacity::rebuild() {
  bundles_ = {};
  all_.clear();
  hosts_.clear();
  numbers_.clear();
  trees_.clear();
  places_.clear();
  by_id_.clear();
  models_.clear();
  cached_.clear();
  activations_.clear();
  fetching_ = 0;
  for (auto& [name, node] : view_->nodes) {
    auto host = hosts_.size();
    numbers_[name] = host;
    bundles_.set(host, node);
    fetching_ += node.fetches;
    auto& x = hosts_.emplace_back();
    x.node = &node;
    x.first = all_.size();
    for (auto& device : node.devices) {
      device_room room;
      room.node = &node;
      room.device = &device;
      room.host = host;
      by_id_[device.id].push_back(all_.size());
      auto& tree = trees_[device.kind];
      places_.emplace_back(&tree, tree.add(all_.size()));
      all_.push_back(room);
    }
    x.last = all_.size();
  }
  for (auto& [kind, tree] : trees_)
    tree.grow();
  for (size_t host = 0; host < hosts_.size(); ++host) {
    read_devices(host);
    read_replicas(host);
  }
}

/// Whether the named nodes have the same devices and bundles as in the index,
/// and no other node has joined or left.
bool device_capacity::is_like_before(const std::set<std::string>& nodes) const {
  if (view_->nodes.size() != hosts_.size())
    return false;
  for (auto& name : nodes) {
    auto is = view_->nodes.find(name);
    auto was = numbers_.find(name);
    if (is == view_->nodes.end() || was == numbers_.end())
      return false;
    auto& host = hosts_[was->second];
    auto& devices = is->second.devices;
    if (host.node != &is->second || devices.size() != host.last - host.first)
      return false;
    for (size_t i = 0; i < devices.size(); ++i) {
      auto in = by_id_.find(devices[i].id);
      auto tree = trees_.find(devices[i].kind);
      auto at = host.first + i;
      if (in == by_id_.end() || tree == trees_.end()
          || places_[at].first != &tree->second
          || !std::binary_search(in->second.begin(), in->second.end(), at))
        return false;
    }
  }
  return true;
}

void device_capacity::follow(const std::set<std::string>& nodes,
                             const std::set<std::string>& completed,
                             std::shared_ptr<const cost_book> costs) {
  auto same_costs =
    costs == costs_ || (costs && costs_ && costs->profiles == costs_->profiles);
  auto same = same_costs && completed == completed_ && is_like_before(nodes);
  completed_ = completed;
  costs_ = std::move(costs);
  for (auto name = nodes.begin(); same && name != nodes.end(); ++name) {
    auto host = numbers_.at(*name);
    same = !bundles_.set(host, *hosts_[host].node);
  }
  if (!same)
    return rebuild();
  for (auto& name : nodes)
    forget_replicas(numbers_.at(name));
  for (auto& name : nodes) {
    auto host = numbers_.at(name);
    auto& x = hosts_[host];
    for (auto at = x.first; at < x.last; ++at) {
      all_[at] = {};
      all_[at].node = x.node;
      all_[at].device = &x.node->devices[at - x.first];
      all_[at].host = host;
    }
    read_devices(host);
    read_replicas(host);
  }
  fetching_ = static_cast<size_t>(std::count_if(
    hosts_.begin(), hosts_.end(), [](auto& x) { return x.node->fetches; }));
}

/// Sums the use of a node's devices and memory by its replicas.
void device_capacity::read_devices(size_t host) {
  auto& x = hosts_[host];
  auto& node = *x.node;
  auto& held = x.memory = {};
  held.leaving = used_only_by(node, {});
  for (auto& y : node.held)
    if (y.used || y.last)
      held.by_content[y.content] = {y.bytes, std::nullopt};
  for (auto& r : node.replicas)
    if (r.state == replica_condition::starting)
      add(host, r.what.model, r.what.version, r.what.layers);
    else if (auto i = held.by_content.find(r.what.content);
             i != held.by_content.end())
      i->second.layers = r.what.layers;
  for (auto& r : node.replicas)
    for (auto i = x.first; i < x.last; ++i) {
      auto& p = all_[i];
      if (p.device->id != r.what.device || r.state == replica_condition::failed)
        continue;
      auto takes = of(node, r);
      p.take(takes);
      p.load += is_there(r) && completed_by(node, r) == nullptr;
      if (!is_there(r)) {
        p.leaving += takes.bytes;
        p.units_leaving += takes.units;
      }
    }
  for (auto i = x.first; i < x.last; ++i)
    refresh(i);
}

/// Counts the models in the replicas and the cache of a node.
void device_capacity::read_replicas(size_t host) {
  auto& x = hosts_[host];
  for (auto& r : x.node->replicas) {
    if (r.state == replica_condition::failed)
      continue;
    counted_replica is{{r.what.model, r.what.version},
                       std::nullopt,
                       r.state == replica_condition::starting};
    for (auto i = x.first; i < x.last && is_there(r); ++i)
      if (all_[i].device->id == r.what.device)
        is.device = i;
    count(host, is, true);
    x.replicas.push_back(std::move(is));
  }
  for (auto& y : x.node->held) {
    x.cached.push_back(y.content);
    cached_[y.content].insert(host);
  }
}

void device_capacity::forget_replicas(size_t host) {
  auto& x = hosts_[host];
  for (auto& r : x.replicas)
    count(host, r, false);
  for (auto& content : x.cached)
    if (auto i = cached_.find(content); i != cached_.end()) {
      i->second.erase(host);
      if (i->second.empty())
        cached_.erase(i);
    }
  x.replicas.clear();
  x.cached.clear();
}

/// Adds a replica to the counts of its model, or removes it.
void device_capacity::count(size_t host, const counted_replica& replica,
                            bool there) {
  auto& model = models_[replica.model];
  auto step = [there](auto& counts, size_t key) {
    if (there)
      ++counts[key];
    else if (--counts[key] == 0)
      counts.erase(key);
  };
  step(replica.starts ? model.starting : model.loaded, host);
  if (replica.device)
    step(model.on, *replica.device);
  if (model.loaded.empty() && model.starting.empty())
    models_.erase(replica.model);
}

void device_capacity::refresh(size_t device) {
  auto& [tree, place] = places_[device];
  tree->set(place, summary_of(all_[device]));
}

// -- running replicas ---------------------------------------------------------

footprint device_capacity::of(const node_state& node,
                              const replica_status& replica) const {
  static const device_info unknown;
  auto host = numbers_.at(node.node.name);
  auto device = &unknown;
  for (auto& y : node.devices)
    if (y.id == replica.what.device)
      device = &y;
  // A starting replica reports no memory yet, and a draining replica still has
  // its memory. The reported memory is that of the parameters.
  auto like = group_like(replica.what);
  auto out = footprint_on(host, *device, like);
  if (auto* its = bundles_.for_node(host, node, like.model, like.version)) {
    auto parameters = millrace::bytes_of(*its, like.layers);
    auto more = replica.memory - std::min(replica.memory, parameters);
    out.bytes += more;
    out.whole = std::max(out.whole, out.bytes);
  } else {
    out.bytes = out.whole = replica.memory;
  }
  auto* part = completed_by(node, replica);
  return part == nullptr ? out : out.beside(of(node, *part));
}

uint64_t
device_capacity::freed_by(const node_state& node,
                          const std::vector<placed_replica>& some) const {
  return used_only_by(node, some) - used_only_by(node, {});
}

// -- changes ------------------------------------------------------------------

template <class Change>
void device_capacity::change_device(size_t device, Change change) {
  auto& p = all_[device];
  if (reservations_ > 0)
    journal_.push_back(device_change{device, p});
  change(p);
  refresh(device);
}

/// Journals a node's memory before a change of one content.
void device_capacity::note_memory(size_t host, const std::string& content) {
  if (reservations_ == 0)
    return;
  auto& all = hosts_[host].memory;
  auto i = all.by_content.find(content);
  journal_.push_back(memory_change{
    host, content,
    i == all.by_content.end() ? std::nullopt : std::optional{i->second},
    all.leaving});
}

/// Adds a replica of these layers. Returns the bytes of the node's memory for
/// bundles that it needs in addition. A bundle on the node's own disk is read
/// into memory if there is room.
uint64_t device_capacity::add(size_t host, const std::string& model,
                              uint64_t version, const layer_range& layers) {
  auto& node = *hosts_[host].node;
  if (node.cache_memory == 0)
    return 0;
  auto* its = bundles_.for_node(host, node, model, version);
  if (its == nullptr || its->content.empty())
    return 0;
  auto& all = hosts_[host].memory;
  auto more = all.more_for(*its, layers);
  if (is_on_disk(host, *its) && all.sum() + more > node.cache_memory)
    return 0;
  note_memory(host, its->content);
  auto& part = all.by_content[its->content];
  part.bytes += more;
  part.layers = layers;
  return more;
}

void device_capacity::book(size_t device, const replica_group& group) {
  auto host = all_[device].host;
  auto takes = of(all_[device], group);
  change_device(device, [&](auto& p) {
    p.take(takes);
    ++p.load;
  });
  add(host, group.model, group.version, group.layers);
  counted_replica is{{group.model, group.version}, device, true};
  count(host, is, true);
  if (reservations_ > 0)
    journal_.push_back(replica_change{host, std::move(is)});
}

void device_capacity::extend(size_t device, const replica_group& group,
                             const footprint& more) {
  change_device(device, [&](auto& p) { p.take(more); });
  add(all_[device].host, group.model, group.version, group.layers);
}

void device_capacity::wait(size_t device, const replica_group& group,
                           uint64_t freed, bool counts_as_load) {
  auto host = all_[device].host;
  auto takes = of(all_[device], group);
  change_device(device, [&](auto& p) {
    p.take(takes);
    p.leaving -= std::min(p.leaving, takes.bytes);
    p.units_leaving -= std::min(p.units_leaving, takes.units);
    p.load += counts_as_load;
  });
  auto bytes = add(host, group.model, group.version, group.layers);
  note_memory(host, {});
  auto& leaving = hosts_[host].memory.leaving;
  leaving += freed;
  leaving -= std::min(leaving, bytes);
}

void device_capacity::leave(size_t device, const footprint& need) {
  change_device(device, [&](auto& p) {
    p.leaving += need.bytes;
    p.units_leaving += need.units;
  });
}

void device_capacity::undo_to(size_t mark) {
  for (; journal_.size() > mark; journal_.pop_back()) {
    auto& last = journal_.back();
    if (auto* x = std::get_if<device_change>(&last)) {
      all_[x->device] = x->before;
      refresh(x->device);
    } else if (auto* y = std::get_if<memory_change>(&last)) {
      auto& all = hosts_[y->host].memory;
      all.leaving = y->leaving;
      if (y->before)
        all.by_content[y->content] = *y->before;
      else
        all.by_content.erase(y->content);
    } else {
      auto& z = std::get<replica_change>(last);
      count(z.host, z.replica, false);
    }
  }
}

capacity_reservation::~capacity_reservation() {
  undo();
  if (--room_.reservations_ == 0)
    room_.journal_.clear();
}

} // namespace millrace
