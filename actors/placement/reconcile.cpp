// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/reconcile.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <unordered_set>

#include "actors/placement/parts.hpp"

namespace millrace {

namespace {

bool is_there(const replica_status& x) {
  return x.state == replica_condition::ready
         || x.state == replica_condition::starting;
}

const model_info* bundle_on(const inventory& node, const std::string& model,
                            uint64_t version) {
  for (auto& x : node.models)
    if (x.model == model && x.version == version)
      return &x;
  return nullptr;
}

/// Of some node's bundle; null where none has it.
const model_info* bundle_of(const cluster_view& view, const std::string& model,
                            uint64_t version) {
  for (auto& [name, node] : view.nodes)
    if (auto* found = bundle_on(node, model, version))
      return found;
  return nullptr;
}

/// A replica on a node, while the plan is being made.
struct placed {
  const std::string* node;
  const replica_status* status;
};

/// A device that can get replicas, and what it has.
struct place {
  const inventory* node;
  const device_info* device;
  size_t load = 0;   ///< replicas
  uint64_t used = 0; ///< bytes
};

class planner {
public:
  explicit planner(const cluster_view& view) : view_(view) {
    for (auto& [node, names] : view.gone)
      names_.insert(names.begin(), names.end());
    for (auto& [name, node] : view.nodes) {
      auto first = places_.size();
      for (auto& device : node.devices)
        places_.push_back({&node, &device, 0, 0});
      for (auto& r : node.replicas) {
        names_.insert(r.what.replica);
        if (is_there(r) && !node.draining)
          there_[r.what.model].push_back({&name, &r});
        for (auto i = first; i < places_.size(); ++i)
          if (places_[i].device->id == r.what.device)
            add(places_[i], r);
      }
    }
  }

  placement_plan run(const std::vector<model_settings>& wanted) {
    std::set<std::string> models;
    for (auto& x : wanted) {
      models.insert(x.model);
      plan_model(x);
    }
    for (auto& [model, replicas] : there_)
      if (!models.contains(model))
        for (auto& r : replicas)
          evict(r);
    return std::move(plan_);
  }

private:
  static void add(place& to, const replica_status& r) {
    if (r.state == replica_condition::failed)
      return;
    to.load += is_there(r);
    // One that starts does not know yet what it takes, one that drains has it
    // still.
    auto* its = bundle_on(*to.node, r.what.model, r.what.version);
    to.used +=
      std::max(r.memory, its == nullptr ? 0 : bytes_of(*its, r.what.layers));
  }

  std::string why_nowhere(const model_settings& x) const {
    auto workers = false, has_it = false;
    for (auto& [name, node] : view_.nodes) {
      workers |= !node.devices.empty();
      for (auto& m : node.models)
        has_it |= m.model == x.model;
    }
    if (!workers)
      return "no worker is there";
    if (!has_it)
      return "no node has a bundle of it";
    return "no node has a bundle of version '"
           + (x.version.empty() ? "default" : x.version) + "'";
  }

  void plan_model(const model_settings& x) {
    auto version = resolve_version(view_, x);
    if (x.replicas > 0)
      plan_.serve.push_back({x.model, version});
    if (version == 0 && x.replicas > 0) {
      plan_.notes[x.model] = why_nowhere(x);
      return;
    }
    std::vector<layer_range> parts;
    if (auto* info = bundle_of(view_, x.model, version)) {
      auto found = parts_of(x, *info);
      if (!found) {
        plan_.notes[x.model] = found.failure().text;
        return;
      }
      parts = std::move(*found);
    }
    std::map<layer_range, std::vector<placed>> right;
    std::vector<placed> wrong;
    for (auto& part : parts)
      right[part];
    for (auto& r : there_[x.model]) {
      auto part = right.find(r.status->what.layers);
      auto fits =
        part != right.end() && is_as_wanted(r.status->what, x, version);
      (fits ? part->second : wrong).push_back(r);
    }
    auto all_ready = true;
    for (size_t i = 0; i < parts.size(); ++i) {
      auto& there = right[parts[i]];
      auto count = wanted_of(x, i);
      while (there.size() > count)
        evict(take_surplus(there));
      if (there.size() < count)
        put({&x, version, parts[i]}, count - there.size());
      auto ready = std::count_if(there.begin(), there.end(), [](auto& r) {
        return r.status->state == replica_condition::ready;
      });
      all_ready &= static_cast<uint64_t>(ready) >= count;
    }
    if (!all_ready)
      return;
    for (auto& r : wrong)
      evict(r);
    for (auto& [part, there] : right)
      if (crowded(there))
        put({&x, version, part}, 1, *there.front().node);
  }

  /// What a replica is to be.
  struct wish {
    const model_settings* settings;
    uint64_t version;
    layer_range layers;
  };

  static bool is_as_wanted(const assignment& is, const model_settings& x,
                           uint64_t version) {
    return is.version == version && is.share == x.share
           && is.threads == x.threads && is.trusted == x.trusted
           && is.tenants == x.tenants && is.policy == x.policy;
  }

  /// Whether several replicas stand or fall with one node. One more elsewhere,
  /// and the next plan finds a surplus here.
  static bool crowded(const std::vector<placed>& xs) {
    return xs.size() > 1 && std::all_of(xs.begin(), xs.end(), [&](auto& r) {
             return *r.node == *xs.front().node;
           });
  }

  /// Takes one out: of the node that has most of them, the newest.
  static placed take_surplus(std::vector<placed>& xs) {
    std::map<std::string, size_t> on;
    for (auto& r : xs)
      ++on[*r.node];
    auto rank = [&](const placed& r) {
      return std::pair{on[*r.node], number_of(r.status->what.replica)};
    };
    auto i = std::max_element(xs.begin(), xs.end(), [&](auto& a, auto& b) {
      return rank(a) < rank(b);
    });
    auto out = *i;
    xs.erase(i);
    return out;
  }

  void evict(const placed& r) {
    plan_.evict.push_back({*r.node, r.status->what.replica});
  }

  static uint64_t number_of(const std::string& replica) {
    auto dot = replica.rfind('.');
    return std::strtoull(replica.c_str() + dot + 1, nullptr, 10);
  }

  std::string fresh_name(const model_settings& x, uint64_t version) {
    auto stem = x.model + "." + std::to_string(version) + ".";
    for (auto& n = next_number_[stem];;)
      if (auto name = stem + std::to_string(++n); names_.insert(name).second)
        return name;
  }

  /// The places that a replica can go to, by number.
  std::vector<size_t> places_for(const wish& what,
                                 const std::string& except) const {
    auto& x = *what.settings;
    std::vector<size_t> out;
    for (size_t i = 0; i < places_.size(); ++i) {
      auto& p = places_[i];
      auto fits = x.device.empty() || x.device == p.device->id
                  || x.device == p.device->kind;
      if (fits && !p.node->draining && p.node->node.name != except
          && bundle_on(*p.node, x.model, what.version) != nullptr)
        out.push_back(i);
    }
    return out;
  }

  /// Adds replicas, each on the emptiest device there is, except on one node.
  void put(const wish& what, uint64_t count, const std::string& except = {}) {
    auto& x = *what.settings;
    auto open = places_for(what, except);
    auto note = open.empty() ? "no ready node has the bundle and the device"
                             : "no device has room";
    auto fuller = [this](size_t a, size_t b) {
      return std::pair{places_[a].load, a} > std::pair{places_[b].load, b};
    };
    std::make_heap(open.begin(), open.end(), fuller);
    while (count > 0 && !open.empty()) {
      std::pop_heap(open.begin(), open.end(), fuller);
      auto& p = places_[open.back()];
      auto bytes =
        bytes_of(*bundle_on(*p.node, x.model, what.version), what.layers);
      auto limit = p.device->memory.value;
      if (limit != 0 && p.used + bytes > limit) {
        open.pop_back();
        continue;
      }
      p.used += bytes;
      ++p.load;
      std::push_heap(open.begin(), open.end(), fuller);
      --count;
      plan_.deploy.push_back({fresh_name(x, what.version), x.model,
                              what.version, what.layers, p.node->node.name,
                              p.device->id, x.share, x.threads, x.trusted,
                              x.tenants, x.policy});
    }
    if (count > 0 && except.empty())
      plan_.notes[x.model] = note;
  }

  const cluster_view& view_;
  std::vector<place> places_;
  std::map<std::string, std::vector<placed>> there_; ///< by model
  std::unordered_set<std::string> names_;
  std::map<std::string, uint64_t> next_number_; ///< below it all are taken
  placement_plan plan_;
};

} // namespace

copy_count count_copies(const cluster_view& view, const model_settings& x) {
  std::map<layer_range, copy_count> by_part;
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas) {
      if (r.what.model != x.model || !is_there(r))
        continue;
      auto& n = by_part[r.what.layers];
      ++(r.state == replica_condition::ready ? n.ready : n.starting);
    }
  auto* info = bundle_of(view, x.model, resolve_version(view, x));
  result<std::vector<layer_range>> parts = std::vector<layer_range>{};
  if (info != nullptr)
    parts = parts_of(x, *info);
  copy_count out;
  if (!parts || parts->size() <= 1) {
    for (auto& [part, n] : by_part) {
      out.ready += n.ready;
      out.starting += n.starting;
    }
    return out;
  }
  out.ready = UINT64_MAX;
  for (auto& part : *parts) {
    auto& n = by_part[part];
    out.ready = std::min(out.ready, n.ready);
    out.starting = std::max(out.starting, n.ready + n.starting);
  }
  out.starting -= std::min(out.starting, out.ready);
  return out;
}

uint64_t resolve_version(const cluster_view& view, const model_settings& x) {
  uint64_t newest = 0, named = 0;
  auto wanted = x.version.empty() ? "default" : x.version;
  for (auto& [name, node] : view.nodes)
    for (auto& m : node.models) {
      if (m.model != x.model)
        continue;
      newest = std::max(newest, m.version);
      if (std::to_string(m.version) == wanted
          || std::count(m.aliases.begin(), m.aliases.end(), wanted) != 0)
        named = m.version;
    }
  return named != 0 ? named : x.version.empty() ? newest : 0;
}

placement_plan reconcile(const cluster_view& view,
                         const std::vector<model_settings>& wanted) {
  return planner{view}.run(wanted);
}

} // namespace millrace
