// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/reconcile.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

#include "actors/placement/availability.hpp"
#include "actors/placement/group_map.hpp"
#include "actors/policies/scale/configured_groups.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

std::set<std::string> completed_among(const std::vector<wanted_groups>& xs) {
  std::set<std::string> out;
  for (auto& x : xs)
    for (auto& g : x.groups)
      if (!g.extends.empty())
        out.insert(g.model);
  return out;
}

class planner {
public:
  planner(const cluster_view& view, const std::vector<wanted_groups>& wanted)
    : view_(view),
      wanted_(wanted),
      capacity_(view, completed_among(wanted)),
      numbers_(view.numbers) {
    for (auto& [name, node] : view.nodes)
      for (auto& r : node.replicas) {
        numbers_.add(r.what.replica);
        numbers_.add(r.what.extends_replica); // its name stays taken
        if (is_there(r) && !node.draining)
          there_[r.what.model].push_back({&name, &r});
      }
  }

  placement_plan run() {
    std::set<std::string> models;
    for (auto& x : wanted_) {
      models.insert(x.model->settings.model);
      survey(x);
    }
    for (auto& x : groups_.layouts)
      plan_copies(x);
    for (auto& x : groups_.layouts)
      if (x.whole != nullptr)
        plan_completion(x);
    for (auto& [model, all] : groups_.by_model)
      if (std::all_of(all.begin(), all.end(),
                      [&](auto i) { return groups_.layouts[i].all_ready; }))
        tidy_up(model, all);
    for (auto& [model, replicas] : there_)
      if (!models.contains(model))
        for (auto& r : replicas)
          evict(r);
    return std::move(plan_);
  }

private:
  /// No replica of a model can be started.
  void note_stuck(const std::string& model) {
    auto is_its = [&](auto& x) { return x.model == model; };
    if (there_[model].empty()
        && std::none_of(plan_.deploy.begin(), plan_.deploy.end(), is_its))
      plan_.stuck.insert(model);
  }

  /// Finds out what there is of a model.
  void survey(const wanted_groups& x) {
    auto& model = *x.model;
    auto& name = model.settings.model;
    auto counts = std::any_of(x.groups.begin(), x.groups.end(),
                              [](auto& g) { return g.count > 0; });
    if (counts || model.elastic
        || (x.groups.empty() && model.settings.replicas > 0))
      plan_.serve.push_back(announcement_of(model));
    if (!x.refused.empty())
      plan_.notes[name] = x.refused;
    if (x.groups.empty() || !x.refused.empty())
      return;
    if (model.version == 0 && (counts || model.elastic)) {
      note_stuck(name);
      plan_.notes[name] =
        why_nowhere(view_, model.settings)
        + (there_[name].empty() ? ""
                                : "; what serves of it stays, but is not"
                                  " replaced when it is lost");
      return;
    }
    groups_.add(x, there_[name]);
    for (auto i : groups_.by_model[name])
      for (auto& all = groups_.layouts[i];
           all.wholes.size() > all.most_wholes();)
        evict(take_surplus(all.wholes));
  }

  /// As many replicas of each part as are wanted, but for those that whole ones
  /// have taken the place of.
  void plan_copies(layout& all) {
    auto whole = count_ready(all.wholes);
    all.all_ready = true;
    for (size_t i = 0; i < all.parts.size(); ++i) {
      auto& there = all.there[i];
      auto count = all.parts[i]->count;
      while (there.size() > count && may_go(surplus_of(there), there, count))
        evict(take_surplus(there));
      count -= std::min(count, whole);
      if (there.size() < count)
        put({all.model, all.parts[i]}, count - there.size());
      all.all_ready &= count_ready(there) >= count;
    }
  }

  /// The parts go when all whole replicas that they are to become are ready;
  /// where they make up no pipeline any more each goes as soon as it waits for
  /// nothing.
  void plan_completion(layout& all) {
    auto waiting = complete_parts(all);
    auto ready = count_ready(all.wholes);
    if (all.copies() == 0 || ready < all.copies())
      return;
    auto done = waiting.empty();
    auto broken = all.is_broken();
    for (auto& replicas : all.there)
      for (auto& r : replicas)
        if (done || (broken && !waiting.contains(r.status)))
          evict(r);
    all.there.clear(); // no part is put anywhere any more
    if (done)
      spread({all.model, all.whole}, all.wholes);
  }

  /// Has a whole replica loaded on each device with a part, as soon as one is
  /// ready there; more than one where all these devices are too few for the
  /// copies that are wanted. Returns the parts that wait for one.
  std::set<const replica_status*> complete_parts(const layout& all) {
    std::set<const replica_status*> waiting;
    std::multiset<size_t> loading;      // places
    std::vector<placed_replica> others; // where their device has one already
    auto open = false; // or will have, once a part is ready there
    replica_spec whole{all.model, all.whole};
    for (auto i : by_layers(all))
      for (auto& r : all.there[i]) {
        auto at = capacity_.of(r);
        if (auto* its = all.completing(r)) {
          if (!is_ready(*its))
            waiting.insert(r.status);
        } else if (loading.contains(at) || all.whole_on(capacity_, at)) {
          others.push_back(r);
        } else if (all.wholes.size() + loading.size() >= all.most_wholes()) {
          continue; // some came back with their node: it needs no other
        } else if (!is_ready(r)) {
          open = true;
          waiting.insert(r.status);
        } else if (load_whole(whole, r)) {
          loading.insert(at);
          waiting.insert(r.status);
        }
      }
    for (auto& r : others) {
      auto at = capacity_.of(r);
      auto few = all.wholes.size() + loading.size() < all.copies();
      if (few && !open && is_ready(r) && load_whole(whole, r))
        loading.insert(at);
      auto* its = all.whole_on(capacity_, at);
      if (loading.contains(at) || !is_ready(*its) || (few && !is_ready(r)))
        waiting.insert(r.status);
    }
    return waiting;
  }

  /// The parts of a layout, by their first layer.
  static std::vector<size_t> by_layers(const layout& all) {
    std::vector<size_t> out(all.parts.size());
    std::iota(out.begin(), out.end(), size_t{0});
    std::sort(out.begin(), out.end(), [&](auto a, auto b) {
      return all.parts[a]->layers < all.parts[b]->layers;
    });
    return out;
  }

  /// Loads it beside a part, where there is room. Returns whether there was.
  bool load_whole(const replica_spec& whole, const placed_replica& part) {
    auto at = capacity_.of(part);
    if (at == capacity_.size())
      return false;
    auto& p = capacity_[at];
    auto more =
      footprint_of(whole, p).beside(capacity_.of(*p.node, *part.status));
    if (!p.has_room(p.held, more.bytes)) {
      plan_.notes[whole.group->model] =
        "no room for whole replicas where its parts are";
      return false;
    }
    if (!can_get(whole, p)) {
      plan_.notes[whole.group->model] = why_not_gotten(whole);
      return false;
    }
    p.take(more);
    deploy(whole, p, part.status->what.replica);
    return true;
  }

  /// All that is wanted of a model is there.
  void tidy_up(const std::string& model, const std::vector<size_t>& layouts) {
    for (auto& r : groups_.wrong[model])
      evict(r);
    for (auto i : layouts)
      for (size_t k = 0; k < groups_.layouts[i].there.size(); ++k)
        spread({groups_.layouts[i].model, groups_.layouts[i].parts[k]},
               groups_.layouts[i].there[k]);
  }

  /// Where several replicas stand or fall with one node: one more elsewhere,
  /// and once that is ready a plan finds a surplus here.
  void spread(const replica_spec& what, const std::vector<placed_replica>& xs) {
    auto crowded =
      xs.size() > 1 && std::all_of(xs.begin(), xs.end(), [&](auto& r) {
        return *r.node == *xs.front().node;
      });
    if (crowded)
      put_where_room(what, 1, *xs.front().node);
  }

  /// Whether enough serve without it.
  static bool may_go(const placed_replica& r,
                     const std::vector<placed_replica>& all, uint64_t count) {
    return !is_ready(r) || count_ready(all) > count;
  }

  /// One: of the node that has most of them, the newest.
  static placed_replica& surplus_of(std::vector<placed_replica>& xs) {
    std::map<std::string, size_t> on;
    for (auto& r : xs)
      ++on[*r.node];
    auto rank = [&](const placed_replica& r) {
      return std::pair{on[*r.node], number_of(r.status->what.replica)};
    };
    return *std::max_element(xs.begin(), xs.end(), [&](auto& a, auto& b) {
      return rank(a) < rank(b);
    });
  }

  static placed_replica take_surplus(std::vector<placed_replica>& xs) {
    auto& last = surplus_of(xs);
    auto out = std::exchange(last, xs.back());
    xs.pop_back();
    return out;
  }

  void evict(const placed_replica& r) {
    plan_.evict.push_back({*r.node, r.status->what.replica});
  }

  void deploy(const replica_spec& what, const place& to,
              const std::string& extends_replica = {}) {
    auto& x = what.settings();
    auto& g = *what.group;
    auto* its = bundle_for(view_, *to.node, g.model, g.version);
    plan_.deploy.push_back({numbers_.fresh(g.model, g.version),
                            g.model,
                            g.version,
                            g.layers,
                            to.node->node.name,
                            to.device->id,
                            g.share,
                            g.threads,
                            x.trusted,
                            x.tenants,
                            x.policy,
                            extends_replica,
                            its == nullptr ? "" : its->content,
                            its == nullptr ? 0 : bytes_of(*its, g.layers),
                            extends_replica.empty() && !serves(what),
                            {g.id, what.model->scope, g.cut, g.stage, g.extends,
                             g.device, g.count, g.least, g.priority}});
    capacity_.add(*to.node, g.model, g.version, g.layers);
  }

  /// Whether a replica that has these layers answers requests, of whatever
  /// version, or will before it is warm.
  bool serves(const replica_spec& what) const {
    auto has = [&](const assignment& x) {
      return x.model == what.group->model
             && x.layers.first <= what.layers().first
             && x.layers.last >= what.layers().last;
    };
    for (auto& [name, node] : view_.nodes)
      for (auto& r : node.replicas)
        if (has(r.what)
            && (r.state == replica_condition::ready
                || (r.state == replica_condition::starting
                    && r.what.skip_warm_up)))
          return true;
    return std::any_of(plan_.deploy.begin(), plan_.deploy.end(),
                       [&](auto& x) { return x.skip_warm_up && has(x); });
  }

  /// The places that a replica can go to, by number.
  std::vector<size_t> places_for(const replica_spec& what,
                                 const std::string& except = {}) const {
    auto& g = *what.group;
    std::vector<size_t> out;
    for (size_t i = 0; i < capacity_.size(); ++i) {
      auto& p = capacity_[i];
      auto& node = p.node->node.name;
      if (fits(g, node, *p.device) && !p.node->draining && node != except
          && bundle_for(view_, *p.node, g.model, g.version) != nullptr)
        out.push_back(i);
    }
    return out;
  }

  bool can_get(const replica_spec& what, const place& on,
               uint64_t freed = 0) const {
    return capacity_.can_get(*on.node, what.group->model, what.version(),
                             what.layers(), freed);
  }

  footprint footprint_of(const replica_spec& what, const place& on) const {
    return capacity_.of(*on.node, what.group->model, what.version(),
                        what.layers());
  }

  /// Adds replicas, each on the emptiest device there is, except on one node;
  /// best where they can become whole ones. Returns how many have no room.
  uint64_t put_where_room(const replica_spec& what, uint64_t count,
                          const std::string& except = {}) {
    auto open = places_for(what, except);
    auto add = [&](place& p) {
      p.take(footprint_of(what, p));
      deploy(what, p);
    };
    count = capacity_.take_emptiest(
      open, count,
      [&](const place& p) {
        return p.has_room(p.reserved, footprint_of(what, p).whole)
               && can_get(what, p);
      },
      add);
    return capacity_.take_emptiest(
      std::move(open), count,
      [&](const place& p) {
        return p.has_room(p.held, footprint_of(what, p).bytes)
               && can_get(what, p);
      },
      add);
  }

  /// Adds replicas that must be there: what no copy is wanted of makes way.
  void put(const replica_spec& what, uint64_t count) {
    count = put_where_room(what, count);
    if (count == 0)
      return;
    auto open = places_for(what);
    auto can = std::any_of(open.begin(), open.end(), [&](auto at) {
      return can_get(what, capacity_[at]);
    });
    plan_.notes[what.group->model] =
      open.empty() ? "no ready node that has the bundle, or can get it, has the"
                     " device in service"
      : can        ? "no device has room"
                   : why_not_gotten(what);
    auto waits = count; // for what leaves
    count = capacity_.take_emptiest(
      open, count, [&](const place& p) { return will_have_room(what, p); },
      [&](place& p) { wait_for_room(what, p); });
    waits -= count;
    for (; count > 0 && make_way(what, open); --count)
      ++waits;
    if (waits == 0)
      note_stuck(what.group->model);
  }

  /// Nodes that could have replicas have no memory for the bundle.
  std::string why_not_gotten(const replica_spec& what) const {
    auto* its = bundle_of(view_, what.group->model, what.version());
    uint64_t most = 0;
    for (auto at : places_for(what))
      most = std::max(most, capacity_[at].node->cache_memory);
    auto bytes = its == nullptr ? 0 : bytes_of(*its, what.layers());
    return "no node has memory for the " + format_bytes(bytes)
           + " that others are to give it: "
           + (bytes > most ? "they have " + format_bytes(most) + " at most"
                           : "what others gave for replicas there takes it");
  }

  /// Whether one has room on a place once what leaves has left, and these.
  bool will_have_room(const replica_spec& what, const place& p,
                      const std::vector<placed_replica>& gone = {}) const {
    uint64_t freed = 0;
    for (auto& r : gone)
      freed += p.device->id == r.status->what.device
                 ? capacity_.of(*p.node, *r.status).bytes
                 : 0;
    return p.has_room(p.held - p.leaving - freed, footprint_of(what, p).bytes)
           && can_get(what, p,
                      capacity_.leaving(*p.node)
                        + capacity_.freed_by(*p.node, gone));
  }

  /// Nothing else gets what leaves a place.
  void wait_for_room(const replica_spec& what, place& p, uint64_t freed = 0) {
    auto x = footprint_of(what, p);
    p.take(x);
    p.leaving -= std::min(p.leaving, x.bytes);
    capacity_.wait(*p.node, what.group->model, what.version(), what.layers(),
                   freed);
  }

  /// Evicts spare replicas where that makes room for one more: of its device,
  /// or of its node's memory.
  bool make_way(const replica_spec& what, const std::vector<size_t>& among) {
    for (auto at : among) {
      auto& p = capacity_[at];
      std::vector<placed_replica> gone;
      for (auto& r : spare_on(*p.node)) {
        if (will_have_room(what, p, gone))
          break;
        gone.push_back(r);
      }
      if (!will_have_room(what, p, gone))
        continue;
      // What went before the last may not be in the way beside that.
      for (auto i = gone.begin(); i != gone.end();) {
        auto r = *i;
        i = gone.erase(i);
        if (!will_have_room(what, p, gone))
          i = gone.insert(i, r) + 1;
      }
      for (auto& r : gone) {
        if (auto its = capacity_.of(r); its != capacity_.size())
          capacity_[its].leaving += capacity_.of(*p.node, *r.status).bytes;
        let_go(r);
      }
      wait_for_room(what, p, capacity_.freed_by(*p.node, gone));
      return true;
    }
    return false;
  }

  std::vector<placed_replica> spare_on(const node_state& node) const {
    std::vector<placed_replica> out;
    for (auto& x : groups_.layouts)
      for (auto& r : x.spare())
        if (*r.node == node.node.name)
          out.push_back(r);
    return out;
  }

  void let_go(const placed_replica& r) {
    evict(r);
    for (auto& x : groups_.layouts)
      std::erase_if(x.wholes, [&](auto& y) { return y.status == r.status; });
  }

  const cluster_view& view_;
  const std::vector<wanted_groups>& wanted_;
  device_capacity capacity_;
  group_map groups_{capacity_};
  std::map<std::string, std::vector<placed_replica>> there_; ///< by model
  replica_numbers numbers_;
  placement_plan plan_;
};

} // namespace

placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted) {
  return planner{view, wanted}.run();
}

} // namespace millrace
