// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/reconcile.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>

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
      places_(view, completed_among(wanted)),
      numbers_(view.numbers) {
    for (auto& [name, node] : view.nodes)
      for (auto& r : node.replicas) {
        numbers_.add(r.what.replica);
        numbers_.add(r.what.completes); // which another would be taken for
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
  std::string why_nowhere(const model_settings& x) const {
    auto workers = false;
    std::map<uint64_t, std::string>
      there; // versions, with what they are called
    for (auto& [name, node] : view_.nodes) {
      workers |= !node.devices.empty();
      for (auto* some : {&node.models, &node.kept})
        for (auto& m : *some)
          if (m.model == x.model && there[m.version].empty())
            there[m.version] = joined(m.aliases, ", ", std::identity{});
    }
    if (!workers)
      return "no worker is there";
    if (there.empty())
      return "no node has a bundle of it";
    return "no node has a bundle of version '"
           + (x.version.empty() ? "default" : x.version) + "'; there is "
           + joined(there, ", ", [](auto& v) {
               return std::to_string(v.first)
                      + (v.second.empty() ? "" : " (" + v.second + ")");
             });
  }

  /// Finds out what there is of a model.
  void survey(const wanted_groups& x) {
    auto& model = *x.model;
    auto& name = model.settings.model;
    auto counts = std::any_of(x.groups.begin(), x.groups.end(),
                              [](auto& g) { return g.count > 0; });
    if (counts || model.elastic
        || (x.groups.empty() && model.settings.replicas > 0))
      plan_.serve.push_back({name,
                             model.version,
                             model.bundle.application,
                             model.settings.tenants,
                             {},
                             model.settings.slo});
    if (!x.refused.empty())
      plan_.notes[name] = x.refused;
    if (x.groups.empty() || !x.refused.empty())
      return;
    if (model.version == 0 && counts) {
      plan_.notes[name] =
        why_nowhere(model.settings)
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
    std::multiset<size_t> loading; // places
    std::vector<placed> others;    // where their device has one already
    auto open = false;             // or will have, once a part is ready there
    wish whole{all.model, all.whole};
    for (auto i : by_layers(all))
      for (auto& r : all.there[i]) {
        auto at = places_.of(r);
        if (auto* its = all.completing(r)) {
          if (!is_ready(*its))
            waiting.insert(r.status);
        } else if (loading.contains(at) || all.whole_on(places_, at)) {
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
      auto at = places_.of(r);
      auto few = all.wholes.size() + loading.size() < all.copies();
      if (few && !open && is_ready(r) && load_whole(whole, r))
        loading.insert(at);
      auto* its = all.whole_on(places_, at);
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
  bool load_whole(const wish& whole, const placed& part) {
    auto at = places_.of(part);
    if (at == places_.size())
      return false;
    auto& p = places_[at];
    auto more =
      footprint_of(whole, p).beside(places_.of(*p.node, *part.status));
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
  void spread(const wish& what, const std::vector<placed>& xs) {
    auto crowded =
      xs.size() > 1 && std::all_of(xs.begin(), xs.end(), [&](auto& r) {
        return *r.node == *xs.front().node;
      });
    if (crowded)
      put_where_room(what, 1, *xs.front().node);
  }

  /// Whether enough serve without it.
  static bool may_go(const placed& r, const std::vector<placed>& all,
                     uint64_t count) {
    return !is_ready(r) || count_ready(all) > count;
  }

  /// One: of the node that has most of them, the newest.
  static placed& surplus_of(std::vector<placed>& xs) {
    std::map<std::string, size_t> on;
    for (auto& r : xs)
      ++on[*r.node];
    auto rank = [&](const placed& r) {
      return std::pair{on[*r.node], number_of(r.status->what.replica)};
    };
    return *std::max_element(xs.begin(), xs.end(), [&](auto& a, auto& b) {
      return rank(a) < rank(b);
    });
  }

  static placed take_surplus(std::vector<placed>& xs) {
    auto& last = surplus_of(xs);
    auto out = std::exchange(last, xs.back());
    xs.pop_back();
    return out;
  }

  void evict(const placed& r) {
    plan_.evict.push_back({*r.node, r.status->what.replica});
  }

  void deploy(const wish& what, const place& to,
              const std::string& completes = {}) {
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
                            completes,
                            its == nullptr ? "" : its->content,
                            its == nullptr ? 0 : bytes_of(*its, g.layers),
                            completes.empty() && !serves(what),
                            {g.id, what.model->scope, g.cut, g.stage, g.extends,
                             g.device, g.count, g.least, g.priority}});
    places_.add(*to.node, g.model, g.version, g.layers);
  }

  /// Whether a replica that has these layers answers requests, of whatever
  /// version, or will before it is warm.
  bool serves(const wish& what) const {
    auto has = [&](const assignment& x) {
      return x.model == what.group->model
             && x.layers.first <= what.layers().first
             && x.layers.last >= what.layers().last;
    };
    for (auto& [name, node] : view_.nodes)
      for (auto& r : node.replicas)
        if (has(r.what)
            && (r.state == replica_condition::ready
                || (r.state == replica_condition::starting && r.what.at_once)))
          return true;
    return std::any_of(plan_.deploy.begin(), plan_.deploy.end(),
                       [&](auto& x) { return x.at_once && has(x); });
  }

  /// The places that a replica can go to, by number.
  std::vector<size_t> places_for(const wish& what,
                                 const std::string& except = {}) const {
    auto& g = *what.group;
    std::vector<size_t> out;
    for (size_t i = 0; i < places_.size(); ++i) {
      auto& p = places_[i];
      auto& node = p.node->node.name;
      if (fits(g, node, *p.device) && !p.node->draining && node != except
          && bundle_for(view_, *p.node, g.model, g.version) != nullptr)
        out.push_back(i);
    }
    return out;
  }

  bool can_get(const wish& what, const place& on, uint64_t freed = 0) const {
    return places_.can_get(*on.node, what.group->model, what.version(),
                           what.layers(), freed);
  }

  footprint footprint_of(const wish& what, const place& on) const {
    return places_.of(*on.node, what.group->model, what.version(),
                      what.layers());
  }

  /// Adds replicas, each on the emptiest device there is, except on one node;
  /// best where they can become whole ones. Returns how many have no room.
  uint64_t put_where_room(const wish& what, uint64_t count,
                          const std::string& except = {}) {
    auto open = places_for(what, except);
    auto add = [&](place& p) {
      p.take(footprint_of(what, p));
      deploy(what, p);
    };
    count = places_.take_emptiest(
      open, count,
      [&](const place& p) {
        return p.has_room(p.reserved, footprint_of(what, p).whole)
               && can_get(what, p);
      },
      add);
    return places_.take_emptiest(
      std::move(open), count,
      [&](const place& p) {
        return p.has_room(p.held, footprint_of(what, p).bytes)
               && can_get(what, p);
      },
      add);
  }

  /// Adds replicas that must be there: what no copy is wanted of makes way.
  void put(const wish& what, uint64_t count) {
    count = put_where_room(what, count);
    if (count == 0)
      return;
    auto open = places_for(what);
    auto can = std::any_of(open.begin(), open.end(),
                           [&](auto at) { return can_get(what, places_[at]); });
    plan_.notes[what.group->model] =
      open.empty() ? "no ready node that has the bundle, or can get it, has the"
                     " device in service"
      : can        ? "no device has room"
                   : why_not_gotten(what);
    count = places_.take_emptiest(
      open, count, [&](const place& p) { return will_have_room(what, p); },
      [&](place& p) { wait_for_room(what, p); });
    while (count > 0 && make_way(what, open))
      --count;
  }

  /// Nodes that could have replicas have no memory for the bundle.
  std::string why_not_gotten(const wish& what) const {
    auto* its = bundle_of(view_, what.group->model, what.version());
    uint64_t most = 0;
    for (auto at : places_for(what))
      most = std::max(most, places_[at].node->cache_memory);
    auto bytes = its == nullptr ? 0 : bytes_of(*its, what.layers());
    return "no node has memory for the " + format_bytes(bytes)
           + " that others are to give it: "
           + (bytes > most ? "they have " + format_bytes(most) + " at most"
                           : "what others gave for replicas there takes it");
  }

  /// Whether one has room on a place once what leaves has left, and these.
  bool will_have_room(const wish& what, const place& p,
                      const std::vector<placed>& gone = {}) const {
    uint64_t freed = 0;
    for (auto& r : gone)
      freed += p.device->id == r.status->what.device
                 ? places_.of(*p.node, *r.status).bytes
                 : 0;
    return p.has_room(p.held - p.leaving - freed, footprint_of(what, p).bytes)
           && can_get(what, p,
                      places_.leaving(*p.node)
                        + places_.freed_by(*p.node, gone));
  }

  /// Nothing else gets what leaves a place.
  void wait_for_room(const wish& what, place& p, uint64_t freed = 0) {
    auto x = footprint_of(what, p);
    p.take(x);
    p.leaving -= std::min(p.leaving, x.bytes);
    places_.wait(*p.node, what.group->model, what.version(), what.layers(),
                 freed);
  }

  /// Evicts spare replicas where that makes room for one more: of its device,
  /// or of its node's memory.
  bool make_way(const wish& what, const std::vector<size_t>& among) {
    for (auto at : among) {
      auto& p = places_[at];
      std::vector<placed> gone;
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
        if (auto its = places_.of(r); its != places_.size())
          places_[its].leaving += places_.of(*p.node, *r.status).bytes;
        let_go(r);
      }
      wait_for_room(what, p, places_.freed_by(*p.node, gone));
      return true;
    }
    return false;
  }

  std::vector<placed> spare_on(const node_state& node) const {
    std::vector<placed> out;
    for (auto& x : groups_.layouts)
      for (auto& r : x.spare())
        if (*r.node == node.node.name)
          out.push_back(r);
    return out;
  }

  void let_go(const placed& r) {
    evict(r);
    for (auto& x : groups_.layouts)
      std::erase_if(x.wholes, [&](auto& y) { return y.status == r.status; });
  }

  const cluster_view& view_;
  const std::vector<wanted_groups>& wanted_;
  places places_;
  group_map groups_{places_};
  std::map<std::string, std::vector<placed>> there_; ///< by model
  replica_numbers numbers_;
  placement_plan plan_;
};

} // namespace

placement_plan reconcile(const cluster_view& view,
                         const std::vector<wanted_groups>& wanted) {
  return planner{view, wanted}.run();
}

} // namespace millrace
