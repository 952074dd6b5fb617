// SPDX-License-Identifier: Apache-2.0

/// \file
/// How a PLACEMENT takes snapshots and proposals.

#include <algorithm>

#include "actors/placement/placement_state.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"

namespace millrace {

/// Drops the proposals and refusals of removed scopes.
void placement_state::on_snapshot(const snapshot_taken& message) {
  auto was = std::exchange(snapshot_, message.content);
  note_changes(was.get());
  note_leaving_machines();
  if (was && was->models == snapshot_->models
      && was->scopes == snapshot_->scopes)
    return;
  std::erase_if(proposals_,
                [&](auto& y) { return !snapshot_->scopes.contains(y.first); });
  std::erase_if(refusals_,
                [&](auto& y) { return !snapshot_->scopes.contains(y.first); });
  commit_soon();
}

/// Whether a node is a machine with a pending release.
bool placement_state::is_leaving(const std::string& node) const {
  if (!snapshot_)
    return false;
  auto i = snapshot_->machines.find(node);
  return i != snapshot_->machines.end()
         && i->second->condition == machine_condition::draining;
}

/// Marks nodes of machines with a pending release: their replicas are replaced
/// elsewhere before the nodes drain. A machine that is requested again becomes
/// an ordinary node.
void placement_state::note_leaving_machines() {
  auto any = false;
  auto mark = [&](const std::string& name, bool draining) {
    any = true;
    view_.nodes.at(name).draining = draining;
    changed_.insert(name);
    capacity_.changed.insert(name);
  };
  for (auto& name : std::set{leaving_})
    if (!is_leaving(name)) {
      mark(name, false);
      leaving_.erase(name);
    }
  for (auto& [name, machine] : snapshot_->machines) {
    auto node = view_.nodes.find(name);
    if (node == view_.nodes.end() || node->second.draining || !is_leaving(name))
      continue;
    mark(name, true);
    leaving_.insert(name);
  }
  if (!any)
    return;
  tell_cluster_state();
  commit_soon();
}

void placement_state::note_changes(const cluster_snapshot* was) {
  auto& is = *snapshot_;
  std::erase_if(intent_changed_,
                [&](auto& y) { return !is.models.contains(y.first); });
  for (auto& [model, x] : is.models) {
    auto same = was != nullptr && was->models.contains(model)
                && was->models.at(model) == x;
    if (!same)
      intent_changed_[model] = is.number;
  }
  std::erase_if(left_, [&](auto& y) { return is.nodes.contains(y.first); });
  if (was == nullptr)
    return;
  for (auto& [node, x] : was->nodes)
    if (!is.nodes.contains(node))
      left_[node] = is.number;
}

/// Returns why the snapshot of a proposal is too old; nothing when it is
/// current.
std::optional<std::string>
placement_state::what_outdates(const proposal& proposed) const {
  auto is_later = [&](auto& changes, const std::string& name) {
    auto i = changes.find(name);
    return i != changes.end() && i->second > proposed.snapshot;
  };
  for (auto& g : proposed.groups) {
    if (is_later(intent_changed_, g.model))
      return "the settings or the bundle of model " + shown(g.model)
             + " have changed since";
    auto node = g.device.substr(0, g.device.find('/'));
    if (node != g.device && is_later(left_, node))
      return "device " + shown(g.device) + " of group " + shown(g.id)
             + " has left since";
  }
  return std::nullopt;
}

/// Errors: conflict for a model that another scope owns; as check_sharing.
result<void> placement_state::check(const proposal& proposed) const {
  for (auto& g : proposed.groups) {
    auto i = snapshot_->models.find(g.model);
    if (i != snapshot_->models.end() && i->second->scope != proposed.scope)
      return error{ec::conflict,
                   "scope " + shown(proposed.scope)
                     + " proposes replicas of model " + shown(g.model)
                     + ", which scope " + shown(i->second->scope) + " owns",
                   {}};
  }
  return check_sharing(proposed);
}

/// Takes a valid proposal. Forgets the failures of models that no proposal
/// wants: an operator may repair a model before it is wanted again.
void placement_state::on_proposal(const proposal& message) {
  if (!snapshot_)
    return;
  if (auto fine = check(message); !fine) {
    log_event(log_level::error, "placement", "proposal_refused",
              {{"scope", message.scope}, {"error", to_string(fine.failure())}});
    refusals_[message.scope] = fine.failure().text;
    return commit_soon(); // shows the refusal
  }
  auto was_refused = refusals_.erase(message.scope) > 0;
  if (auto why = what_outdates(message)) {
    log_event(log_level::info, "placement", "proposal_outdated",
              {{"scope", message.scope},
               {"snapshot", message.snapshot},
               {"reason", *why}});
    if (auto from = self_->current_sender())
      self_->send(caf::actor_cast<autoscaler_actor>(from),
                  proposal_outdated{message.scope, message.snapshot});
    return;
  }
  auto& known = proposals_[message.scope];
  auto same = known.epoch != 0 && known.groups == message.groups
              && known.refused == message.refused
              && known.devices == message.devices
              && known.variants == message.variants;
  known = message;
  if (same && was_refused)
    commit_soon(); // removes the note
  if (same)
    return;
  std::set<std::string> models;
  for (auto& y : wanted())
    if (std::any_of(y.groups.begin(), y.groups.end(),
                    [](auto& g) { return g.count > 0; }))
      models.insert(y.model->settings.model);
  std::erase_if(troubles_,
                [&](auto& y) { return !models.contains(y.first.first); });
  commit_soon();
}

std::vector<wanted_groups> placement_state::wanted() const {
  std::vector<wanted_groups> out;
  std::map<std::string, size_t> places;
  for (auto& [model, x] : snapshot_->models) {
    places[model] = out.size();
    auto scope = snapshot_->scopes.find(x->scope);
    out.push_back({x,
                   {},
                   {},
                   scope == snapshot_->scopes.end()
                     ? rollout_settings{}
                     : scope->second->settings.rollout});
  }
  for (auto& [scope, x] : proposals_) {
    for (auto& g : x.groups)
      if (auto i = places.find(g.model);
          i != places.end() && out[i->second].model->scope == scope)
        out[i->second].groups.push_back(g);
    for (auto& [model, why] : x.refused)
      if (auto i = places.find(model);
          i != places.end() && out[i->second].model->scope == scope)
        out[i->second].refused = why;
  }
  return out;
}

} // namespace millrace
