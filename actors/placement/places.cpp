// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/places.hpp"

#include <algorithm>
#include <numeric>

#include "actors/placement/parts.hpp"

namespace millrace {

namespace {

/// The one there that it completes; null when that is gone.
const replica_status* completed_by(const inventory& node,
                                   const replica_status& x) {
  if (x.what.completes.empty())
    return nullptr;
  auto i =
    std::find_if(node.replicas.begin(), node.replicas.end(), [&](auto& y) {
      return y.what.replica == x.what.completes
             && y.state != replica_condition::failed;
    });
  return i == node.replicas.end() ? nullptr : &*i;
}

} // namespace

places::places(const cluster_view& view, std::set<std::string> completed)
  : view_(view),
    completed_(std::move(completed)) {
  for (auto& [name, node] : view.nodes) {
    auto first = all_.size();
    for (auto& device : node.devices)
      all_.push_back({&node, &device});
    for (auto& x : node.held)
      if (x.stays)
        memory_[name][x.content] = {x.bytes, std::nullopt};
    for (auto& r : node.replicas)
      if (r.state == replica_condition::starting)
        add(r.what);
      else if (auto i = memory_[name].find(r.what.content);
               i != memory_[name].end())
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

size_t places::of(const placed& x) const {
  auto i = std::find_if(all_.begin(), all_.end(), [&](auto& p) {
    return p.node->node.name == *x.node
           && p.device->id == x.status->what.device;
  });
  return static_cast<size_t>(i - all_.begin());
}

footprint places::of(const inventory& node, const std::string& model,
                     uint64_t version, const layer_range& layers) const {
  auto* its = bundle_for(view_, node, model, version);
  if (its == nullptr)
    return {};
  auto bytes = bytes_of(*its, layers);
  return {bytes, completed_.contains(model) ? its->bytes : bytes};
}

footprint places::of(const inventory& node, const replica_status& x) const {
  // One that starts does not know yet what it takes, one that drains has it
  // still.
  auto out = of(node, x.what.model, x.what.version, x.what.layers);
  out.bytes = std::max(out.bytes, x.memory);
  out.whole = std::max(out.whole, x.memory);
  auto* part = completed_by(node, x);
  return part == nullptr ? out : out.beside(of(node, *part));
}

/// Where other layers of it are there, or will be, all of it comes.
uint64_t places::more_for(const memory& in, const model_info& its,
                          const layer_range& layers) {
  auto bytes = bytes_of(its, layers);
  auto i = in.find(its.content);
  if (i == in.end())
    return bytes;
  auto& [there, of] = i->second;
  auto most = !of || *of == layers ? bytes : its.bytes;
  return most - std::min(most, there);
}

uint64_t places::sum_of(const memory& x) {
  return std::accumulate(
    x.begin(), x.end(), uint64_t{0},
    [](auto sum, auto& entry) { return sum + entry.second.bytes; });
}

/// What is on its own disk is read into memory if there is room for it.
void places::add(const assignment& x) {
  auto node = view_.nodes.find(x.node);
  auto* its = node == view_.nodes.end()
                ? nullptr
                : bundle_for(view_, node->second, x.model, x.version);
  if (its == nullptr || its->content.empty() || node->second.cache_memory == 0)
    return;
  auto& all = memory_[x.node];
  auto more = more_for(all, *its, x.layers);
  if (bundle_on(node->second, x.model, x.version) != nullptr
      && sum_of(all) + more > node->second.cache_memory)
    return;
  auto& part = all[its->content];
  part.bytes += more;
  part.layers = x.layers;
}

bool places::can_get(const inventory& node, const std::string& model,
                     uint64_t version, const layer_range& layers) const {
  auto* its = bundle_for(view_, node, model, version);
  if (its == nullptr || node.cache_memory == 0
      || bundle_on(node, model, version) != nullptr)
    return true;
  auto is_held = std::any_of(node.held.begin(), node.held.end(), [&](auto& x) {
    return x.content == its->content;
  });
  if (has_kept(node, *its) && !is_held)
    return true; // on its disk
  auto i = memory_.find(node.node.name);
  static const memory none;
  auto& there = i == memory_.end() ? none : i->second;
  return sum_of(there) + more_for(there, *its, layers) <= node.cache_memory;
}

uint64_t places::take_emptiest(std::vector<size_t> among, uint64_t count,
                               const std::function<bool(const place&)>& fits,
                               const std::function<void(place&)>& f) {
  auto fuller = [this](size_t a, size_t b) {
    return std::pair{all_[a].load, a} > std::pair{all_[b].load, b};
  };
  std::make_heap(among.begin(), among.end(), fuller);
  while (count > 0 && !among.empty()) {
    std::pop_heap(among.begin(), among.end(), fuller);
    auto& p = all_[among.back()];
    if (!fits(p)) {
      among.pop_back();
      continue;
    }
    f(p);
    ++p.load;
    std::push_heap(among.begin(), among.end(), fuller);
    --count;
  }
  return count;
}

} // namespace millrace
