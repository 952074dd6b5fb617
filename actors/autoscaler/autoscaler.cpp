// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "actors/autoscaler/autoscaler_state.hpp"
#include "actors/policies/registry.hpp"
#include "actors/policies/scale/machines.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/deltas.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// The name of a scope's policy.
const std::string& policy_of(const scope_state& x) {
  auto& name = x.settings.policy;
  return name.empty() ? scaling_policies().front().name : name;
}

/// Replicas of a model that a proposal wants, by the key of the group.
std::map<std::string, uint64_t> counts_of(const proposal& x,
                                          const std::string& model) {
  std::map<std::string, uint64_t> out;
  for (auto& g : x.groups)
    if (g.model == model)
      out[g.id.substr(g.id.rfind('/') + 1)] = g.count;
  return out;
}

std::string shown_counts(const std::map<std::string, uint64_t>& xs) {
  return joined(xs, ", ", [](auto& x) {
    return x.first + " x" + std::to_string(x.second);
  });
}

/// Whether two proposals differ for the placement.
bool wants_other(const proposal& x, const proposal& y) {
  return x.groups != y.groups || x.refused != y.refused
         || x.devices != y.devices;
}

} // namespace

void autoscaler_state::start(
  autoscaler_actor::stateful_pointer<autoscaler_state> self,
  autoscaler_options options, placement_actor placement,
  provider_actor provider, std::shared_ptr<metrics> counts) {
  self_ = self;
  counts_ = std::move(counts);
  shown_at_ = now();
  options_ = options;
  placement_ = std::move(placement);
  provider_ = std::move(provider);
  set_common_handlers(self);
}

timestamp autoscaler_state::now() const {
  return self_->clock().now();
}

void autoscaler_state::renew(scope_loop& loop, const std::string& scope,
                             const std::shared_ptr<const scope_state>& is) {
  auto& settings = is->settings;
  if (!loop.scope || loop.scope->settings != settings) {
    if (loop.scope && loop.scope->settings.policy != settings.policy)
      loop.memory = {};
    auto made = make_scaling_policy(scope, settings);
    if (made)
      loop.policy = std::move(*made); // else the last valid one stays
    else
      log_event(log_level::error, "autoscaler", "policy_refused",
                {{"scope", scope}, {"error", to_string(made.failure())}});
  }
  loop.scope = is;
}

/// Whether settings or bundles of a scope's models have changed.
bool autoscaler_state::concerns(const scope_state& scope,
                                const cluster_snapshot& was) const {
  return std::any_of(scope.models.begin(), scope.models.end(),
                     [&](auto& model) {
                       auto before = was.models.find(model);
                       return before == was.models.end()
                              || before->second != snapshot_->models.at(model);
                     });
}

/// Whether requests wait for a model without replicas in the last proposal.
bool autoscaler_state::is_pressed(const scope_loop& loop) const {
  return std::any_of(
    loop.scope->models.begin(), loop.scope->models.end(), [&](auto& model) {
      auto load = snapshot_->loads.find(model);
      return load != snapshot_->loads.end() && load->second->pressure
             && copies_in(loop.last, model).value_or(0) == 0;
    });
}

void autoscaler_state::on_snapshot(const snapshot_taken& message) {
  auto was = std::exchange(snapshot_, message.content);
  std::erase_if(loops_,
                [&](auto& y) { return !snapshot_->scopes.contains(y.first); });
  std::erase_if(decisions_,
                [&](auto& y) { return !snapshot_->models.contains(y.first); });
  // The placement waits for a decision that counts the replicas of a new node.
  auto joined =
    std::any_of(snapshot_->nodes.begin(), snapshot_->nodes.end(),
                [&](auto& y) { return !was || !was->nodes.contains(y.first); });
  for (auto& [scope, is] : snapshot_->scopes) {
    auto& loop = loops_[scope];
    auto other = loop.scope != is;
    if (other)
      renew(loop, scope, is);
    if (other || joined || concerns(*is, *was) || is_pressed(loop)
        || loop.outdated || loop.due <= now())
      run(scope, loop, joined || loop.outdated);
  }
  show_replicas();
  arm();
}

/// Runs the policy again: now, or on the next snapshot.
void autoscaler_state::on_outdated(const proposal_outdated& message) {
  auto i = loops_.find(message.scope);
  if (i == loops_.end() || i->second.last.snapshot != message.snapshot)
    return;
  i->second.outdated = true;
  if (snapshot_->number > message.snapshot)
    run(message.scope, i->second, true);
  arm();
}

/// Counts the time of ready replicas since the last snapshot.
void autoscaler_state::show_replicas() {
  auto since = to_seconds(now() - std::exchange(shown_at_, now()));
  std::map<std::string, counter> all;
  for (auto& x : on_get_scaling().models) {
    auto& to =
      all.emplace(x.model, counts_->replica_seconds(x.model)).first->second;
    to.add(static_cast<double>(x.ready) * since);
  }
  replica_seconds_ = std::move(all);
}

void autoscaler_state::run(const std::string& scope, scope_loop& loop,
                           bool send) {
  if (!loop.policy)
    return;
  loop.outdated = false;
  auto begun = now();
  // Each decision draws from its own stream, so that the seed replays it.
  auto seed = random_stream{options_.seed}
                .fork(scope)
                .fork(std::to_string(snapshot_->number))
                .next();
  random_stream random{seed};
  auto before = loop.memory;
  auto is = propose_with_machines(*loop.policy, scope, *snapshot_, loop.memory,
                                  random, begun);
  auto takes = time_of_decision(*loop.scope);
  counts_->decision_seconds(policy_of(*loop.scope))
    .observe(to_seconds(takes > 0ns ? takes : now() - begun));
  loop.due = next_due_with_machines(*loop.policy, loop.scope->settings,
                                    loop.memory, now());
  is.epoch = options_.epoch;
  is.snapshot = snapshot_->number;
  if (auto made = note_changes(loop, is); !made.empty())
    keep_record(
      {std::move(made), seed, begun, std::move(before), is, snapshot_});
  // For a periodic policy the placement may have dropped the last proposal, see
  // await_decisions.
  auto other = send || loop.due != far_future || loop.last.epoch == 0
               || wants_other(loop.last, is);
  loop.last = std::move(is);
  if (!other)
    return;
  auto send_to = [&](auto& actor) {
    if (takes > 0ns)
      self_->delayed_send(actor, takes, loop.last);
    else
      self_->send(actor, loop.last);
  };
  send_to(placement_);
  if (provider_ && !loop.last.machines.empty())
    send_to(provider_);
}

/// Simulated time from a decision to its effect; 0 outside simulations.
nanoseconds autoscaler_state::time_of_decision(const scope_state& scope) const {
  if (options_.decision_seconds.empty())
    return 0ns;
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>{
    options_.decision_seconds.at(static_cast<double>(scope.models.size()))});
}

void autoscaler_state::keep_record(record decision) {
  records_.push_back(std::move(decision));
  if (records_.size() > records_kept)
    records_.pop_front();
}

std::vector<decision> autoscaler_state::note_changes(const scope_loop& of,
                                                     const proposal& is) {
  std::vector<decision> out;
  for (auto& model : of.scope->models) {
    auto to = copies_in(is, model);
    if (!to)
      continue;
    auto before = copies_in(of.last, model);
    auto load = snapshot_->loads.find(model);
    auto from = before                           ? *before
                : load == snapshot_->loads.end() ? 0
                                                 : copies_there(*load->second);
    auto groups = counts_of(is, model);
    auto known = of.last.epoch > 0;
    if (from == *to && (!known || groups == counts_of(of.last, model)))
      continue;
    auto why = is.reasons.find(model);
    decision made{model,
                  is.scope,
                  policy_of(*of.scope),
                  ++last_decision_,
                  is.snapshot,
                  {},
                  from,
                  *to,
                  why == is.reasons.end() ? "" : why->second,
                  std::move(groups)};
    counts_->scaling_decisions(made.policy, *to > from ? "up" : "down").add();
    log_event(log_level::info, "autoscaler", "scaled",
              {{"model", model},
               {"from", from},
               {"to", *to},
               {"groups", shown_counts(made.groups)},
               {"policy", made.policy},
               {"reason", made.reason}});
    out.push_back(made);
    auto& past = decisions_[model];
    past.push_front({std::move(made), now()});
    if (past.size() > decisions_kept)
      past.pop_back();
  }
  return out;
}

void autoscaler_state::on_tick() {
  if (!alarm_.rings(now()))
    return;
  for (auto& [scope, loop] : loops_)
    if (loop.due <= now())
      run(scope, loop);
  arm();
}

void autoscaler_state::arm() {
  auto due = far_future;
  for (auto& [scope, loop] : loops_)
    due = std::min(due, loop.due);
  alarm_.set(self_, due);
}

scaling_list autoscaler_state::on_get_scaling() const {
  scaling_list out;
  static const model_load nothing;
  for (auto& [scope, loop] : loops_)
    for (auto& model : loop.scope->models) {
      auto& settings = snapshot_->models.at(model)->settings;
      auto load = snapshot_->loads.find(model);
      auto& is = load == snapshot_->loads.end() ? nothing : *load->second;
      scaling_status x;
      x.model = model;
      x.scope = scope;
      x.policy = policy_of(*loop.scope);
      x.min = settings.scaling.min;
      x.max = settings.scaling.max;
      x.wanted = copies_in(loop.last, model).value_or(0);
      for (auto& g : is.groups) {
        x.ready += g.ready;
        x.starting += g.starting;
      }
      x.rate = is.rate;
      x.waiting = is.waiting;
      if (auto why = loop.last.reasons.find(model);
          why != loop.last.reasons.end())
        x.reason = why->second;
      if (auto stages = loop.last.stages.find(model);
          stages != loop.last.stages.end())
        x.stages = stages->second;
      if (auto why = loop.last.refused.find(model);
          why != loop.last.refused.end())
        x.reason = why->second;
      if (auto i = decisions_.find(model);
          i != decisions_.end() && !i->second.empty())
        x.changed = to_us(now() - i->second.front().when);
      out.models.push_back(std::move(x));
    }
  std::sort(out.models.begin(), out.models.end(),
            [](auto& a, auto& b) { return a.model < b.model; });
  return out;
}

decision_list
autoscaler_state::on_get_decisions(const get_decisions& request) const {
  std::vector<past_decision> found;
  for (auto& [model, past] : decisions_)
    if (request.model.empty() || request.model == model)
      found.insert(found.end(), past.begin(), past.end());
  std::sort(found.begin(), found.end(),
            [](auto& a, auto& b) { return a.what.number > b.what.number; });
  decision_list out;
  for (auto& y : found) {
    out.decisions.push_back(std::move(y.what));
    out.decisions.back().ago = to_us(now() - y.when);
  }
  return out;
}

/// Packs each snapshot as a delta to the snapshot of the record before.
caf::result<decision_records>
autoscaler_state::on_get_records(const get_decision_records& request) const {
  decision_records out;
  const cluster_snapshot* last = nullptr;
  for (auto& y : records_) {
    auto i = std::find_if(y.made.begin(), y.made.end(), [&](auto& d) {
      return request.model.empty() || d.model == request.model;
    });
    if (i == y.made.end())
      continue;
    out.records.push_back({*i, y.seed, y.when.time_since_epoch().count(),
                           y.memory, y.proposed,
                           difference(last, *y.snapshot)});
    out.records.back().what.ago = to_us(now() - y.when);
    last = y.snapshot.get();
  }
  if (out.records.empty() && !request.model.empty())
    return to_caf(error{ec::unknown_model,
                        "no decision for model " + shown(request.model)
                          + " is among the last "
                          + std::to_string(records_kept),
                        {}});
  return out;
}

autoscaler_actor::behavior_type
autoscaler(autoscaler_actor::stateful_pointer<autoscaler_state> self,
           autoscaler_options options, placement_actor placement,
           provider_actor provider, std::shared_ptr<metrics> counts) {
  auto& s = self->state;
  s.start(self, options, std::move(placement), std::move(provider),
          std::move(counts));
  return {
    [&s](const snapshot_taken& x) { s.on_snapshot(x); },
    [&s](const proposal_outdated& x) { s.on_outdated(x); },
    [&s](get_scaling) { return s.on_get_scaling(); },
    [&s](const get_decisions& x) { return s.on_get_decisions(x); },
    [&s](const get_decision_records& x) { return s.on_get_records(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
