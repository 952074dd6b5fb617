// SPDX-License-Identifier: Apache-2.0

/// \file
/// Model versions that a GATEWAY serves: from their first replica until they
/// have none left and none is expected.

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
  // Each router draws other random numbers, also after a restart.
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
bool gateway_state::is_assigned(const replica_ready& message) const {
  if (wanted_.epoch == 0)
    return !options_.only_assigned;
  auto* wanted = find_wanted(message.info.model);
  if (wanted == nullptr)
    return false;
  auto i = wanted->replicas.find(message.name);
  return i != wanted->replicas.end()
         && i->second == node_of(message.handle, bus_->self().name);
}

/// Keeps an announcement until a controller has assigned the replica: the
/// assignment may be on its way. Beyond the limit the node with the most
/// announcements loses its oldest, so that no node displaces another.
void gateway_state::hold(replica_ready& message) {
  constexpr size_t most = 1024;
  std::erase_if(unassigned_, [&](auto& y) {
    return y.handle == message.handle || !y.handle;
  });
  auto node_of_replica = [&](const replica_ready& y) {
    return node_of(y.handle, bus_->self().name);
  };
  unassigned_.push_back(std::move(message));
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

void gateway_state::on_ready(replica_ready& message) {
  if (!message.handle)
    return; // its node went away while this was on its way
  message.limits = in_bounds(message.limits);
  if (!is_assigned(message))
    return hold(message);
  auto* wanted = find_wanted(message.info.model);
  auto policy = wanted != nullptr ? wanted->policy : message.policy;
  auto* place = model_of(message.info, policy);
  if (place == nullptr) {
    log_event(log_level::error, "gateway", "too_many_models",
              {{"replica", message.name}, {"most", options_.max_models}});
    return;
  }
  auto& m = *place;
  m.info = message.info;
  m.tenants = wanted != nullptr ? wanted->tenants : message.tenants;
  if (std::exchange(m.ended, false))
    show_answers(m);
  if (wanted != nullptr) {
    m.slo = wanted->slo;
    m.standing = wanted->standing;
  }
  auto known = m.draining.erase(message.handle->id()) != 0;
  if (m.replicas.insert(message.handle->id()).second && !known)
    self_->monitor(caf::actor_cast<caf::actor>(message.handle));
  catalogue_.reset();
  self_->send(m.router, std::move(message));
  end_what_nobody_waits_for(m.info.model);
}

void gateway_state::on_wanted(wanted_models& message) {
  if (message.epoch < wanted_.epoch)
    return;
  wanted_ = std::move(message);
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

/// Applies the settings of a model to all its versions.
void gateway_state::adopt_settings(const wanted_model& wanted) {
  auto versions = by_name_.find(wanted.model);
  if (versions == by_name_.end())
    return;
  for (auto i : versions->second) {
    auto& m = models_[i];
    m.tenants = wanted.tenants;
    m.slo = wanted.slo;
    m.standing = wanted.standing;
    if (std::exchange(m.policy, wanted.policy) != wanted.policy)
      self_->send(m.router, wanted.policy);
  }
}

/// Serves a model that may have no replica: its requests wait in the router.
void gateway_state::serve_waiting(const wanted_model& wanted) {
  auto* m = model_of(wanted.info, wanted.policy, true);
  if (m == nullptr)
    return; // on_ready logs it
  m->waits = true;
  auto was_closed = std::exchange(m->ended, false);
  if (was_closed)
    show_answers(*m);
  m->obstacle = wanted.stuck ? wanted.note : std::string{};
  if (!m->replicas.empty())
    return;
  m->info = wanted.info;
  // If no replica can be started, pass_on refuses the returned requests.
  if (was_closed || (wanted.stuck && m->open > 0))
    self_->send(m->router, drain_queue{});
}

error gateway_state::stuck(const served& model) {
  return {ec::unavailable,
          "no replica of model " + shown(model.info.model)
            + " can be started: " + model.obstacle,
          microseconds{100'000}};
}

/// Whether a version can answer; a model in parts needs all parts.
bool gateway_state::is_ready(const served& model) {
  return model.through && !model.replicas.empty();
}

/// Whether requests wait for a version without a replica: it is, or may be, the
/// wanted version; or its model is wanted and no other version is ready.
bool gateway_state::is_waited_for(const served& model) const {
  auto* wanted = find_wanted(model.info.model);
  if (wanted == nullptr && wanted_.epoch != 0)
    return false;
  if (wanted != nullptr
      && (wanted->version == model.info.version || wanted->version == 0))
    return true;
  return std::none_of(models_.begin(), models_.end(), [&](auto& y) {
    return y.info.model == model.info.model && is_ready(y);
  });
}

/// Ends the versions of a model that have no replica and are not expected.
void gateway_state::end_what_nobody_waits_for(const std::string& model) {
  for (auto& m : models_)
    if (m.info.model == model && m.replicas.empty() && !m.ended
        && !is_waited_for(m)) {
      m.ended = true;
      self_->send(m.router, drain_queue{true});
      hide_if_over(m);
    }
}

/// Has routers of an application return their queued requests, so that the
/// gateway chooses their variant again. After a variant became ready: all
/// other routers. After it lost its last replica: its own router.
void gateway_state::choose_anew(const served& model) {
  auto& application = model.info.application;
  if (application.empty())
    return;
  for (auto& m : models_)
    if (m.info.application == application && m.open > 0 && !m.ended
        && (&m != &model) == is_ready(model))
      self_->send(m.router, drain_queue{});
}

void gateway_state::on_tuned(const replica_tuned& message) {
  if (!message.handle)
    return; // its node went away while this was on its way
  auto limits = in_bounds(message.limits);
  for (auto& y : unassigned_)
    if (y.handle == message.handle)
      y.limits = limits;
  auto id = message.handle->id();
  for (auto& m : models_)
    if (m.replicas.contains(id) || m.draining.contains(id))
      self_->send(m.router, replica_tuned{message.handle, limits});
}

void gateway_state::on_draining(const replica_draining& message) {
  if (!message.handle)
    return; // its node went away while this was on its way
  catalogue_.reset();
  auto id = message.handle->id();
  for (auto& m : models_) {
    if (m.replicas.erase(id) != 0)
      m.draining.insert(id);
    if (m.draining.contains(id)) {
      self_->send(m.router, message);
      if (m.replicas.empty())
        choose_anew(m);
      return end_what_nobody_waits_for(m.info.model);
    }
  }
  self_->send(caf::actor_cast<replica_actor>(message.handle),
              router_released{bus_->self().name});
}

void gateway_state::on_down(const caf::down_msg& message) {
  catalogue_.reset();
  for (auto& m : models_) {
    m.draining.erase(message.source.id());
    if (m.replicas.erase(message.source.id()) != 0) {
      if (m.replicas.empty())
        choose_anew(m);
      end_what_nobody_waits_for(m.info.model);
    }
  }
}

void gateway_state::on_model_availability(const model_availability& message) {
  for (auto& m : models_)
    if (m.router == self_->current_sender()) {
      m.through = message.open;
      catalogue_.reset();
      if (is_ready(m))
        choose_anew(m);
      return end_what_nobody_waits_for(m.info.model);
    }
}

void gateway_state::on_describe(const client_describe& request) {
  model_list_reply y;
  for (auto& m : models_)
    if ((request.model.empty() || request.model == m.info.model)
        && is_for(m, request.from))
      y.models.push_back(m.info);
  bus_->answer(request.from, request.tag, std::move(y));
}

void gateway_state::on_returned(requests_returned& message) {
  auto time = now();
  for (auto& y : message.requests) {
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

/// Moves a request to another model or version. False: the inputs do not fit
/// its signature.
bool gateway_state::move_to(size_t to, routed& passed, request& r) {
  auto& before = models_[r.model];
  auto& after = models_[to];
  auto& theirs = after.info.signature.inputs;
  auto& ours = before.info.signature.inputs; // in the order of the inputs
  auto alike =
    std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
               [](auto& a, auto& b) { return a.name == b.name; });
  auto rows = check_inputs(after.info.signature, passed.inputs);
  if (!alike || !rows)
    return false;
  passed.rows = *rows;
  --before.open;
  ++after.open;
  r.model = to;
  hand_to_router(to, std::move(passed));
  return true;
}

/// Routes a returned request: to another version or variant that the client
/// accepts, or to its router again.
result<void> gateway_state::pass_on(routed& passed, request& r) {
  auto& before = models_[r.model];
  if (!before.ended && r.asked && r.asked->model.empty())
    if (auto chosen = choose(*r.asked, r.from->first);
        chosen && *chosen != r.model && is_ready(models_[*chosen])
        && move_to(*chosen, passed, r))
      return {};
  if (!before.ended && before.replicas.empty() && !before.obstacle.empty())
    return stuck(before);
  if (!before.ended) { // the version is still served
    hand_to_router(r.model, std::move(passed));
    return {};
  }
  error ended{ec::unavailable,
              "version " + std::to_string(before.info.version) + " of model '"
                + before.info.model + "' is no longer served",
              {}};
  if (!r.any_version)
    return ended;
  infer any;
  any.model = before.info.model;
  auto chosen = choose(r.asked ? *r.asked : any, r.from->first);
  if (!chosen || !move_to(*chosen, passed, r))
    return ended;
  return {};
}

} // namespace millrace
