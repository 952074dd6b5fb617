// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/placement_state.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "actors/policies/registry.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Delay of a commit, so that changes within it share one plan.
constexpr auto commit_delay = 20ms;

/// How long the note of a model shows the last failure after
/// quarantine::is_over().
constexpr auto past_shown = 1min;

std::pair<std::string, bool> troubles_of(const assignment& x) {
  return {x.model, !x.extends_replica.empty()};
}

} // namespace

void placement_state::start(
  placement_actor::stateful_pointer<placement_state> self,
  placement_options options, std::shared_ptr<metrics> counts) {
  self_ = self;
  counts_ = std::move(counts);
  options_ = options;
  auto policy = make_placement_policy(options.policy);
  MILLRACE_ASSERT(policy); // the config was checked
  policy_ = std::move(*policy);
  set_common_handlers(self);
  settled_at_ = now() + options.settle;
  joined_at_ = now() + options.join;
  self->delayed_send(self, options.settle, tick::value);
  due_ = true;
}

timestamp placement_state::now() const {
  return self_->clock().now();
}

void placement_state::commit_soon() {
  if (due_)
    return;
  due_ = true;
  self_->delayed_send(self_, commit_delay, tick::value);
}

// -- nodes --------------------------------------------------------------------

void placement_state::on_observe(const observe_nodes& message) {
  cluster_state_ = message.by;
  for (auto& [name, node] : view_.nodes)
    changed_.insert(name);
  tell_cluster_state();
}

void placement_state::tell_cluster_state() {
  if (!cluster_state_ || changed_.empty())
    return;
  nodes_changed x;
  for (auto& name : changed_) {
    auto i = view_.nodes.find(name);
    x.nodes[name] = i == view_.nodes.end()
                      ? nullptr
                      : std::make_shared<const node_state>(i->second);
  }
  changed_.clear();
  self_->send(cluster_state_, std::move(x));
}

/// Drops proposals that were made without the replicas of a node that joins:
/// the models of their scopes keep their replicas until the policy has decided
/// again.
void placement_state::await_decisions(const node_state& fresh) {
  if (!snapshot_)
    return;
  for (auto& r : fresh.replicas)
    if (auto i = snapshot_->models.find(r.what.model);
        i != snapshot_->models.end() && i->second->elastic)
      proposals_.erase(i->second->scope);
}

void placement_state::on_inventory(inventory& message) {
  auto& name = message.state.node.name;
  if (now() < joined_at_ && !view_.nodes.contains(name))
    joined_at_ = now() + options_.join;
  if (!view_.nodes.contains(name))
    await_decisions(message.state);
  auto& known = view_.nodes[name];
  if (known.node.incarnation > message.state.node.incarnation)
    return;
  for (auto& r : message.state.replicas) {
    auto before =
      std::find_if(known.replicas.begin(), known.replicas.end(),
                   [&](auto& y) { return y.what.replica == r.what.replica; });
    auto had_failed = (before != known.replicas.end()
                       && before->state == replica_condition::failed)
                      || starts_.has_failed(r.what.replica);
    if (r.state == replica_condition::failed && !had_failed && !r.excused)
      note_failure(r);
  }
  known = std::move(message.state);
  leaving_.erase(name);
  if (!known.draining && is_leaving(name)) {
    known.draining = true;
    leaving_.insert(name);
  }
  auto& node = known.node.name;
  links_[node] = {message.epoch, message.sequence, message.supervisor,
                  message.gateway};
  starts_.on_inventory(known, now());
  for (auto& r : known.replicas)
    view_.numbers.add(r.what.replica);
  await_those_lost_with(node);
  awaited_.erase(node);
  auto& orders = orders_[node];
  std::erase_if(orders, [&](auto& y) {
    return message.epoch == options_.epoch && y.sequence <= message.sequence;
  });
  for (auto& y : orders)
    std::visit([&](auto& what) { apply(known, what); }, y.what);
  changed_.insert(node);
  capacity_.changed.insert(node);
  tell_cluster_state();
  commit_soon();
}

void placement_state::note_failure(const replica_status& replica) {
  auto key = troubles_of(replica.what);
  std::erase_if(troubles_, [&](auto& y) {
    return y.first != key && y.second.rules.is_over(now());
  });
  auto& t = troubles_[key];
  auto was = t.rules.is_in_force();
  auto begun = starts_.begun(replica.what.replica);
  auto was_ready = !begun || replica.memory > 0;
  t.rules.on_failure(now(), was_ready ? nanoseconds{0} : now() - *begun);
  t.reason =
    replica.what.replica + " on " + replica.what.node + ": " + replica.reason;
  if (t.rules.is_in_force() && !was)
    log_event(log_level::error, "placement", "quarantine",
              {{"model", replica.what.model}, {"reason", t.reason}});
  send_at(self_, t.rules.again(), tick::value);
}

void placement_state::on_peer_down(const peer_down& message) {
  if (message.left)
    lost_.erase(message.peer.name);
  auto i = view_.nodes.find(message.peer.name);
  if (i == view_.nodes.end()
      || i->second.node.incarnation != message.peer.incarnation)
    return;
  starts_.on_lost(message.peer.name);
  leaving_.erase(message.peer.name);
  view_.nodes.erase(i);
  links_.erase(message.peer.name);
  changed_.insert(message.peer.name);
  capacity_.changed.insert(message.peer.name);
  tell_cluster_state();
  orders_.erase(message.peer.name);
  told_.erase(message.peer.name);
  if (message.returns)
    await(message.peer.name);
  else
    awaited_.erase(message.peer.name);
  if (!message.returns && !message.left)
    lost_.add(message.peer, message.reason, now());
  commit_soon();
}

void placement_state::await(const std::string& node) {
  // A node that joins and leaves repeatedly must not extend the wait.
  if (awaited_.empty())
    awaited_until_ = now() + options_.settle;
  awaited_.insert(node);
}

void placement_state::await_those_lost_with(const std::string& node) {
  auto all = lost_.list(now());
  auto it = std::find_if(all.begin(), all.end(),
                         [&](auto& x) { return x.node.name == node; });
  if (it == all.end())
    return;
  lost_.erase(node);
  for (auto& x : all)
    if (x.node.name != node
        && std::chrono::abs(x.ago - it->ago) < options_.settle)
      await(x.node.name);
}

void placement_state::on_tick() {
  due_ = false;
  auto may_begin = now() >= settled_at_ && missing().empty();
  if (may_begin && (awaited_.empty() || now() >= awaited_until_)) {
    awaited_.clear();
    joined_at_ = now();
    commit();
  } else {
    commit_soon();
  }
  show_copies();
}

std::set<std::string> placement_state::missing() const {
  auto runs = [](auto& x) { return !x.second.replicas.empty(); };
  if (now() >= joined_at_
      || std::any_of(view_.nodes.begin(), view_.nodes.end(), runs))
    return {};
  auto out = options_.expected;
  for (auto& [name, node] : view_.nodes)
    out.erase(name);
  return out;
}

void placement_state::commit() {
  if (!snapshot_)
    return; // the intent is unknown, so no replica may be evicted
  if (deciding_) {
    again_ = true;
    return;
  }
  auto plan = std::make_shared<const placement_plan>(
    reconcile(view_, wanted(), *policy_, *snapshot_, capacity_));
  if (options_.decision_seconds.empty())
    return carry_out(*plan);
  deciding_ = true;
  std::chrono::duration<double> takes{
    options_.decision_seconds.at(static_cast<double>(replicas()))};
  self_->delayed_send(self_, std::chrono::duration_cast<nanoseconds>(takes),
                      decided_plan{std::move(plan)});
}

void placement_state::tell_gateways(const std::vector<wanted_model>& models) {
  for (auto& [name, link] : links_) {
    if (!link.gateway)
      continue;
    auto& last = told_[name];
    auto to = caf::actor_cast<caf::actor_addr>(link.gateway);
    if (last.gateway == to && last.models == models)
      continue;
    last = {to, models};
    self_->send(caf::actor_cast<gateway_actor>(link.gateway),
                wanted_models{options_.epoch, models});
  }
}

/// Number of wanted replicas, each part counted; the input size of a decision.
size_t placement_state::replicas() const {
  size_t n = 0;
  for (auto& x : wanted())
    for (auto& g : x.groups)
      n += g.extends.empty() ? g.count : 0;
  return n;
}

void placement_state::on_decided(const decided_plan& message) {
  deciding_ = false;
  carry_out(*message.plan);
  if (std::exchange(again_, false))
    commit_soon();
}

/// Whether a model has a replica that serves or starts.
bool placement_state::is_on_its_way(const std::string& model) const {
  for (auto& [name, node] : view_.nodes)
    for (auto& r : node.replicas)
      if (r.what.model == model && is_there(r))
        return true;
  return false;
}

void placement_state::carry_out(const placement_plan& plan) {
  notes_ = plan.notes;
  note_faults_of_proposals();
  std::set<std::string> quarantined;
  for (auto& x : plan.deploy) {
    auto t = troubles_.find(troubles_of(x));
    if (t != troubles_.end() && t->second.rules.again() > now()) {
      notes_[x.model] = t->second.note();
      if (t->second.rules.is_in_force())
        quarantined.insert(x.model);
      continue;
    }
    if (auto node = view_.nodes.find(x.node); node != view_.nodes.end())
      start_replica(node->second, x);
  }
  adjust_replicas(plan);
  share_devices();
  auto serve = plan.serve;
  for (auto& x : serve) {
    if (auto why = notes_.find(x.model); why != notes_.end())
      x.note = why->second;
    x.stuck = plan.stuck.contains(x.model)
              || (quarantined.contains(x.model) && !is_on_its_way(x.model));
  }
  std::map<std::string, std::map<std::string, std::string>> assigned;
  for (auto& [node, state] : view_.nodes)
    for (auto& r : state.replicas)
      assigned[r.what.model][r.what.replica] = node;
  for (auto& [scope, its] : proposals_)
    for (auto& x : serve)
      if (auto i = its.variants.find(x.model); i != its.variants.end())
        x.standing = i->second;
  for (auto& x : serve)
    x.replicas = assigned[x.model];
  tell_gateways(serve);
  for (auto& x : plan.evict)
    if (auto node = view_.nodes.find(x.node); node != view_.nodes.end())
      end_replica(node->second, x.replica);
  tell_cluster_state();
}

/// Updates the replica metrics of registered models, and ends the series of
/// models that are no longer registered.
void placement_state::show_copies() {
  if (!snapshot_ || !counts_->is_on())
    return;
  std::erase_if(shown_,
                [&](auto& x) { return !snapshot_->models.contains(x.first); });
  for (auto& x : wanted()) {
    auto& model = x.model->settings.model;
    auto i = shown_.find(model);
    if (i == shown_.end())
      i =
        shown_
          .emplace(model, copies_shown{counts_->model_replicas_wanted(model),
                                       counts_->model_replicas_ready(model),
                                       counts_->model_replicas_starting(model)})
          .first;
    auto n = count_copies(view_, x);
    i->second.wanted.set(static_cast<double>(n.wanted));
    i->second.ready.set(static_cast<double>(n.ready));
    i->second.starting.set(static_cast<double>(n.starting));
  }
}

model_list placement_state::on_get_models() const {
  model_list out;
  auto awaited = missing();
  if (!snapshot_)
    return out;
  for (auto& x : wanted()) {
    auto n = count_copies(view_, x);
    auto& model = x.model->settings.model;
    model_status y{x.model->settings, n.wanted, n.ready, n.starting, {}};
    if (auto i = notes_.find(model); i != notes_.end())
      y.note = i->second;
    else if (!awaited.empty())
      y.note =
        "waits for " + joined(awaited, ", ", std::identity{}) + " to join";
    else if (auto t = troubles_.find({model, false});
             n.ready < n.wanted && t != troubles_.end()
             && !t->second.rules.is_over(now() - past_shown))
      y.note = t->second.note();
    out.models.push_back(std::move(y));
  }
  return out;
}

start_list placement_state::on_get_starts() const {
  return {starts_.list(now())};
}

placement_actor::behavior_type
placement(placement_actor::stateful_pointer<placement_state> self,
          placement_options options, std::shared_ptr<metrics> counts) {
  auto& s = self->state;
  s.start(self, options, std::move(counts));
  return {
    [&s](const snapshot_taken& x) { s.on_snapshot(x); },
    [&s](const proposal& x) { s.on_proposal(x); },
    [&s](inventory& x) { s.on_inventory(x); },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](const observe_nodes& x) { s.on_observe(x); },
    [&s](get_models) { return s.on_get_models(); },
    [&s](get_starts) { return s.on_get_starts(); },
    [&s](const decided_plan& x) { s.on_decided(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
