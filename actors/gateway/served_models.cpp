// SPDX-License-Identifier: Apache-2.0

/// \file
/// Which model versions a GATEWAY serves: from their first replica on until
/// they have none and none is waited for.

#include <algorithm>
#include <utility>

#include <caf/exit_reason.hpp>

#include "actors/gateway/gateway_state.hpp"
#include "actors/router/router.hpp"
#include "actors/router/router_state.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "transport/remote_actor.hpp"

namespace millrace {

namespace {

/// Limits that a router can work with, whatever a node announces.
replica_limits in_bounds(replica_limits x) {
  constexpr double weight_min = 1e-3, weight_max = 1e3;
  constexpr uint32_t credit_max = 1u << 16;
  x.batch = std::max<uint64_t>(1, x.batch);
  x.credit = std::min(x.credit, credit_max);
  x.weight =
    x.weight >= weight_min ? std::min(x.weight, weight_max) : weight_min;
  return x;
}

std::string router_name(const model_info& x) {
  return "router/" + x.model + "." + std::to_string(x.version);
}

} // namespace

gateway_state::served* gateway_state::free_place() {
  if (models_.size() < options_.max_models)
    return &models_.emplace_back();
  served* found = nullptr;
  for (auto& m : models_)
    if (m.replicas.empty() && m.draining.empty() && m.open == 0
        && (found == nullptr || (m.ended && !found->ended)))
      found = &m;
  if (found == nullptr)
    return nullptr;
  self_->unlink_from(found->router.address());
  self_->send_exit(found->router, caf::exit_reason::user_shutdown);
  bus_->publish(router_name(found->info), nullptr);
  auto versions = by_name_.find(found->info.model);
  std::erase(versions->second, static_cast<size_t>(found - models_.data()));
  if (versions->second.empty())
    by_name_.erase(versions);
  *found = {};
  return found;
}

gateway_state::served* gateway_state::model_of(const model_info& info,
                                               const serving_policy& policy,
                                               bool waits) {
  if (auto named = by_name_.find(info.model); named != by_name_.end())
    for (auto i : named->second)
      if (models_[i].info.version == info.version)
        return &models_[i];
  auto* place = free_place();
  if (place == nullptr)
    return nullptr;
  auto& m = *place;
  m.info = info;
  m.policy = policy;
  m.demand = &demand_for(info.model);
  by_name_[info.model].push_back(static_cast<size_t>(place - models_.data()));
  // No two routers, and no two lives of one, decide alike.
  auto& here = bus_->self();
  auto name = router_name(info);
  auto seed = random_stream{here.incarnation}.fork(here.name + "/" + name);
  m.router = self_->spawn<caf::linked>(
    router,
    router_options{here.name, info.model, info.version,
                   info.signature.batch_axis, policy, seed.next(),
                   options_.spans, options_.death_notice, waits},
    gateway_actor{self_}, counts_);
  bus_->publish(name, caf::actor_cast<caf::strong_actor_ptr>(m.router));
  show_answers(m);
  return place;
}

const wanted_model* gateway_state::find_wanted(const std::string& model) const {
  auto i = std::find_if(wanted_.models.begin(), wanted_.models.end(),
                        [&](auto& y) { return y.model == model; });
  return i == wanted_.models.end() ? nullptr : &*i;
}

/// Whether a controller has assigned the replica to the node that runs it.
bool gateway_state::is_assigned(const replica_ready& x) const {
  if (wanted_.epoch == 0)
    return !options_.only_assigned;
  auto* wanted = find_wanted(x.info.model);
  if (wanted == nullptr)
    return false;
  auto i = wanted->replicas.find(x.name);
  return i != wanted->replicas.end()
         && i->second == node_of(x.handle, bus_->self().name);
}

/// Keeps an announcement until a controller has assigned the replica: the
/// assignment may be on its way. Beyond the limit the node with most
/// announcements loses its oldest, so that no node takes the room of another.
void gateway_state::hold(replica_ready& x) {
  constexpr size_t most = 1024;
  std::erase_if(unassigned_,
                [&](auto& y) { return y.handle == x.handle || !y.handle; });
  auto node_of_replica = [&](const replica_ready& y) {
    return node_of(y.handle, bus_->self().name);
  };
  unassigned_.push_back(std::move(x));
  log_event(log_level::info, "gateway", "replica_not_assigned",
            {{"replica", unassigned_.back().name},
             {"node", node_of_replica(unassigned_.back())}});
  if (unassigned_.size() <= most)
    return;
  std::map<std::string, size_t> of_node;
  for (auto& y : unassigned_)
    ++of_node[node_of_replica(y)];
  auto largest =
    std::max_element(of_node.begin(), of_node.end(),
                     [](auto& a, auto& b) { return a.second < b.second; });
  unassigned_.erase(
    std::find_if(unassigned_.begin(), unassigned_.end(), [&](auto& y) {
      return node_of_replica(y) == largest->first;
    }));
}

void gateway_state::take_assigned() {
  for (auto& x : std::exchange(unassigned_, {}))
    if (is_assigned(x))
      on_ready(x);
    else
      unassigned_.push_back(std::move(x));
}

void gateway_state::on_ready(replica_ready& x) {
  if (!x.handle)
    return; // its node went away while this was on its way
  x.limits = in_bounds(x.limits);
  if (!is_assigned(x))
    return hold(x);
  auto* wanted = find_wanted(x.info.model);
  auto policy = wanted != nullptr ? wanted->policy : x.policy;
  auto* place = model_of(x.info, policy);
  if (place == nullptr) {
    log_event(log_level::error, "gateway", "too_many_models",
              {{"replica", x.name}, {"most", options_.max_models}});
    return;
  }
  auto& m = *place;
  m.info = x.info;
  m.tenants = wanted != nullptr ? wanted->tenants : x.tenants;
  if (std::exchange(m.ended, false))
    show_answers(m);
  if (wanted != nullptr) {
    m.slo = wanted->slo;
    m.standing = wanted->standing;
  }
  auto known = m.draining.erase(x.handle->id()) != 0;
  if (m.replicas.insert(x.handle->id()).second && !known)
    self_->monitor(caf::actor_cast<caf::actor>(x.handle));
  catalogue_.reset();
  self_->send(m.router, std::move(x));
  end_what_nobody_waits_for(m.info.model);
}

void gateway_state::on_wanted(wanted_models& x) {
  if (x.epoch < wanted_.epoch)
    return;
  wanted_ = std::move(x);
  for (auto& y : wanted_.models)
    if (auto i = demand_.find(y.model); i != demand_.end())
      i->second.set_slo(y.slo);
  for (auto& m : models_) {
    m.waits = false;
    m.obstacle.clear();
  }
  for (auto& y : wanted_.models)
    if (y.waits && y.version != 0)
      serve_waiting(y);
  for (auto& y : wanted_.models)
    adopt_settings(y);
  std::erase_if(refused_, [&](auto& y) {
    auto& model = std::get<0>(y.first);
    return model != unknown_model_label && !may_answer(model);
  });
  catalogue_.reset();
  take_assigned();
  for (auto& m : models_)
    if (m.replicas.empty())
      end_what_nobody_waits_for(m.info.model);
}

/// Settings that belong to the model, whatever its version.
void gateway_state::adopt_settings(const wanted_model& x) {
  auto versions = by_name_.find(x.model);
  if (versions == by_name_.end())
    return;
  for (auto i : versions->second) {
    auto& m = models_[i];
    m.tenants = x.tenants;
    m.slo = x.slo;
    m.standing = x.standing;
    if (std::exchange(m.policy, x.policy) != x.policy)
      self_->send(m.router, x.policy);
  }
}

/// A model that may have no replica: requests for it wait in its router.
void gateway_state::serve_waiting(const wanted_model& x) {
  auto* m = model_of(x.info, x.policy, true);
  if (m == nullptr)
    return; // on_ready logs it
  m->waits = true;
  auto was_closed = std::exchange(m->ended, false);
  if (was_closed)
    show_answers(*m);
  m->obstacle = x.stuck ? x.note : std::string{};
  if (!m->replicas.empty())
    return;
  m->info = x.info;
  // Where no replica can be started, what the router hands back is refused.
  if (was_closed || (x.stuck && m->open > 0))
    self_->send(m->router, drain_queue{});
}

error gateway_state::stuck(const served& x) {
  return {ec::unavailable,
          "no replica of model " + shown(x.info.model)
            + " can be started: " + x.obstacle,
          microseconds{100'000}};
}

/// Whether it can answer: a model in parts does not before all are there.
bool gateway_state::is_ready(const served& x) {
  return x.through && !x.replicas.empty();
}

/// A version that has no replica is waited for if it is, or may be, the one
/// that is wanted, or while its model is wanted and no other version of it is
/// there.
bool gateway_state::is_waited_for(const served& x) const {
  auto* wanted = find_wanted(x.info.model);
  if (wanted == nullptr && wanted_.epoch != 0)
    return false;
  if (wanted != nullptr
      && (wanted->version == x.info.version || wanted->version == 0))
    return true;
  return std::none_of(models_.begin(), models_.end(), [&](auto& y) {
    return y.info.model == x.info.model && is_ready(y);
  });
}

/// Of that model.
void gateway_state::end_what_nobody_waits_for(const std::string& model) {
  for (auto& m : models_)
    if (m.info.model == model && m.replicas.empty() && !m.ended
        && !is_waited_for(m)) {
      m.ended = true;
      self_->send(m.router, drain_queue{true});
      hide_if_over(m);
    }
}

/// Has the routers of an application hand back requests that wait, for a new
/// choice of the variant: when a variant becomes ready, the other ones; when a
/// variant has lost its last replica, its own.
void gateway_state::choose_anew(const served& x) {
  auto& application = x.info.application;
  if (application.empty())
    return;
  for (auto& m : models_)
    if (m.info.application == application && m.open > 0 && !m.ended
        && (&m != &x) == is_ready(x))
      self_->send(m.router, drain_queue{});
}

void gateway_state::on_tuned(const replica_tuned& x) {
  if (!x.handle)
    return; // its node went away while this was on its way
  auto limits = in_bounds(x.limits);
  for (auto& y : unassigned_)
    if (y.handle == x.handle)
      y.limits = limits;
  auto id = x.handle->id();
  for (auto& m : models_)
    if (m.replicas.contains(id) || m.draining.contains(id))
      self_->send(m.router, replica_tuned{x.handle, limits});
}

void gateway_state::on_draining(const replica_draining& x) {
  if (!x.handle)
    return; // its node went away while this was on its way
  catalogue_.reset();
  auto id = x.handle->id();
  for (auto& m : models_) {
    if (m.replicas.erase(id) != 0)
      m.draining.insert(id);
    if (m.draining.contains(id)) {
      self_->send(m.router, x);
      if (m.replicas.empty())
        choose_anew(m);
      return end_what_nobody_waits_for(m.info.model);
    }
  }
  self_->send(caf::actor_cast<replica_actor>(x.handle),
              router_released{bus_->self().name});
}

void gateway_state::on_down(const caf::down_msg& x) {
  catalogue_.reset();
  for (auto& m : models_) {
    m.draining.erase(x.source.id());
    if (m.replicas.erase(x.source.id()) != 0) {
      if (m.replicas.empty())
        choose_anew(m);
      end_what_nobody_waits_for(m.info.model);
    }
  }
}

void gateway_state::on_model_availability(const model_availability& x) {
  for (auto& m : models_)
    if (m.router == self_->current_sender()) {
      m.through = x.open;
      catalogue_.reset();
      if (is_ready(m))
        choose_anew(m);
      return end_what_nobody_waits_for(m.info.model);
    }
}

void gateway_state::on_describe(const client_describe& x) {
  model_list_reply y;
  for (auto& m : models_)
    if ((x.model.empty() || x.model == m.info.model) && is_for(m, x.from))
      y.models.push_back(m.info);
  bus_->answer(x.from, x.tag, std::move(y));
}

void gateway_state::on_returned(requests_returned& x) {
  auto time = now();
  for (auto& y : x.requests) {
    auto i = in_flight_.find(y.key);
    if (i == in_flight_.end())
      continue;
    if (auto passed = pass_on(y, i->second); !passed) {
      infer_reply z;
      z.status = passed.failure().code;
      z.error = passed.failure().text;
      finish_request(y.key, i->second, std::move(z), time);
    }
  }
  send_routes();
}

/// Hands a request to another model or version. False: the inputs do not fit
/// its signature.
bool gateway_state::move_to(size_t to, routed& x, request& r) {
  auto& before = models_[r.model];
  auto& after = models_[to];
  auto& theirs = after.info.signature.inputs;
  auto& ours = before.info.signature.inputs; // in the order of the inputs
  auto alike =
    std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
               [](auto& a, auto& b) { return a.name == b.name; });
  auto rows = check_inputs(after.info.signature, x.inputs);
  if (!alike || !rows)
    return false;
  x.rows = *rows;
  --before.open;
  ++after.open;
  r.model = to;
  hand_to_router(to, std::move(x));
  return true;
}

/// To another version of its model, or another variant, if one will do for who
/// asked.
result<void> gateway_state::pass_on(routed& x, request& r) {
  auto& before = models_[r.model];
  if (!before.ended && r.asked && r.asked->model.empty())
    if (auto chosen = choose(*r.asked, r.from->first);
        chosen && *chosen != r.model && is_ready(models_[*chosen])
        && move_to(*chosen, x, r))
      return {};
  if (!before.ended && before.replicas.empty() && !before.obstacle.empty())
    return stuck(before);
  if (!before.ended) { // it has come back meanwhile
    hand_to_router(r.model, std::move(x));
    return {};
  }
  error ended{ec::unavailable,
              "version " + std::to_string(before.info.version) + " of model '"
                + before.info.model + "' is not served any more",
              {}};
  if (!r.any_version)
    return ended;
  infer any;
  any.model = before.info.model;
  auto chosen = choose(r.asked ? *r.asked : any, r.from->first);
  if (!chosen || !move_to(*chosen, x, r))
    return ended;
  return {};
}

} // namespace millrace
