// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/reconcile.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

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

/// A replica on a node, while the plan is being made.
struct placed {
  std::string node;
  replica_status status;
};

class planner {
public:
  explicit planner(const cluster_view& view) : view_(view) {
    for (auto& [name, node] : view.nodes)
      for (auto& r : node.replicas) {
        names_.insert(r.what.replica);
        if (is_there(r) && !node.draining)
          there_.push_back({name, r});
        if (is_there(r))
          ++load_[{name, r.what.device}];
      }
  }

  placement_plan run(const std::vector<model_settings>& wanted) {
    std::set<std::string> models;
    for (auto& x : wanted) {
      models.insert(x.model);
      plan_model(x);
    }
    for (auto& r : there_)
      if (!models.contains(r.status.what.model))
        evict(r);
    return std::move(plan_);
  }

private:
  void plan_model(const model_settings& x) {
    auto version = resolve_version(view_, x);
    if (version == 0 && x.replicas > 0) {
      plan_.notes[x.model] = "no node has a bundle of version '"
                             + (x.version.empty() ? "default" : x.version)
                             + "'";
      return;
    }
    std::vector<placed> right, wrong;
    for (auto& r : there_)
      if (r.status.what.model == x.model)
        (is_as_wanted(r.status.what, x, version) ? right : wrong).push_back(r);
    while (right.size() > x.replicas)
      evict(take_surplus(right));
    for (auto i = right.size(); i < x.replicas; ++i)
      if (!place(x, version))
        break;
    auto ready = std::count_if(right.begin(), right.end(), [](auto& r) {
      return r.status.state == replica_condition::ready;
    });
    if (static_cast<uint64_t>(ready) < x.replicas)
      return;
    for (auto& r : wrong)
      evict(r);
    if (crowded(right))
      place(x, version, right.front().node);
  }

  static bool is_as_wanted(const assignment& is, const model_settings& x,
                           uint64_t version) {
    return is.version == version && is.share == x.share
           && is.threads == x.threads && is.policy == x.policy;
  }

  /// Whether several replicas stand or fall with one node. One more elsewhere,
  /// and the next plan finds a surplus here.
  static bool crowded(const std::vector<placed>& xs) {
    return xs.size() > 1 && std::all_of(xs.begin(), xs.end(), [&](auto& r) {
             return r.node == xs.front().node;
           });
  }

  /// Takes one out: of the node that has most of them, the newest.
  static placed take_surplus(std::vector<placed>& xs) {
    std::map<std::string, size_t> on;
    for (auto& r : xs)
      ++on[r.node];
    auto rank = [&](const placed& r) {
      return std::pair{on[r.node], number_of(r.status.what.replica)};
    };
    auto i = std::max_element(xs.begin(), xs.end(), [&](auto& a, auto& b) {
      return rank(a) < rank(b);
    });
    auto out = *i;
    xs.erase(i);
    return out;
  }

  void evict(const placed& r) {
    plan_.evict.push_back({r.node, r.status.what.replica});
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

  bool has_room(const inventory& node, const device_info& device,
                const model_info& bundle) const {
    if (device.memory.value == 0)
      return true;
    uint64_t used = 0;
    for (auto& r : node.replicas) {
      if (r.state == replica_condition::failed || r.what.device != device.id)
        continue;
      // One that starts does not know yet what it takes, one that drains has
      // it still.
      auto* its = bundle_on(node, r.what.model, r.what.version);
      used += std::max(r.memory, its == nullptr ? 0 : its->bytes);
    }
    for (auto& x : plan_.deploy)
      if (x.node == node.node.name && x.device == device.id)
        used += bundle.bytes;
    return used + bundle.bytes <= device.memory.value;
  }

  /// Adds a replica on the emptiest device there is, except on one node.
  bool place(const model_settings& x, uint64_t version,
             const std::string& except = {}) {
    const inventory* best_node = nullptr;
    const device_info* best = nullptr;
    size_t best_load = 0;
    std::string why = "no ready node has the bundle and the device";
    for (auto& [name, node] : view_.nodes) {
      auto* bundle = bundle_on(node, x.model, version);
      if (node.draining || bundle == nullptr || name == except)
        continue;
      for (auto& device : node.devices) {
        if (!x.device.empty() && x.device != device.id
            && x.device != device.kind)
          continue;
        if (!has_room(node, device, *bundle)) {
          why = "no device has room";
          continue;
        }
        auto load = load_[{name, device.id}];
        if (best == nullptr || load < best_load) {
          best_node = &node;
          best = &device;
          best_load = load;
        }
      }
    }
    if (best == nullptr) {
      if (except.empty())
        plan_.notes[x.model] = why;
      return false;
    }
    auto& node = best_node->node.name;
    ++load_[{node, best->id}];
    plan_.deploy.push_back({fresh_name(x, version), x.model, version, node,
                            best->id, x.share, x.threads, x.policy});
    return true;
  }

  const cluster_view& view_;
  std::vector<placed> there_;
  std::set<std::string> names_;
  std::map<std::string, uint64_t> next_number_; ///< below it all are taken
  std::map<std::pair<std::string, std::string>, size_t> load_;
  placement_plan plan_;
};

} // namespace

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
