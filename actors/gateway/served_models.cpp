// SPDX-License-Identifier: Apache-2.0

/// \file
/// Which model versions a GATEWAY knows: they come with their first replica,
/// and go when none is to come any more.

#include <algorithm>
#include <utility>

#include <caf/exit_reason.hpp>

#include "actors/gateway/gateway_state.hpp"
#include "actors/router/router.hpp"
#include "actors/router/router_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

std::string router_name(const model_info& x) {
  return "router/" + x.model + "." + std::to_string(x.version);
}

} // namespace

gateway_state::served* gateway_state::free_place() {
  if (models_.size() < options_.max_models)
    return &models_.emplace_back();
  for (auto& m : models_) {
    if (!m.replicas.empty() || m.open > 0)
      continue;
    self_->unlink_from(m.router.address());
    self_->send_exit(m.router, caf::exit_reason::user_shutdown);
    bus_->publish(router_name(m.info), nullptr);
    m = {};
    return &m;
  }
  return nullptr;
}

gateway_state::served* gateway_state::model_of(const replica_ready& x) {
  for (auto& m : models_)
    if (m.info.model == x.info.model && m.info.version == x.info.version)
      return &m;
  auto* place = free_place();
  if (place == nullptr)
    return nullptr;
  auto& m = *place;
  // No two routers, and no two lives of one, decide alike.
  auto& here = bus_->self();
  auto name = router_name(x.info);
  auto seed = random_stream{here.incarnation}.fork(here.name + "/" + name);
  m.router = self_->spawn<caf::linked>(
    router,
    router_options{x.info.model, x.info.version, x.info.signature.batch_axis,
                   x.policy, seed.next(), options_.spans},
    gateway_actor{self_}, counts_);
  bus_->publish(name, caf::actor_cast<caf::strong_actor_ptr>(m.router));
  m.queue_time.emplace(counts_->request_seconds(x.info.model, phase::queue));
  m.execute_time.emplace(
    counts_->request_seconds(x.info.model, phase::execute));
  m.total_time.emplace(counts_->request_seconds(x.info.model, phase::total));
  return place;
}

void gateway_state::on_ready(replica_ready& x) {
  if (!x.handle)
    return; // its node went away while this was on its way
  auto* place = model_of(x);
  if (place == nullptr) {
    log_event(log_level::error, "gateway", "too_many_models",
              {{"replica", x.name}, {"most", options_.max_models}});
    return;
  }
  auto& m = *place;
  m.info = x.info;
  m.tenants = x.tenants;
  m.policy = x.policy;
  m.unwanted = m.ended = false;
  if (m.replicas.insert(x.handle->id()).second)
    self_->monitor(caf::actor_cast<caf::actor>(x.handle));
  self_->send(m.router, std::move(x));
  // What no replica serves is not waited for where there is another version.
  for (auto& other : models_)
    if (other.info.model == m.info.model && other.replicas.empty())
      end(other);
}

void gateway_state::end(served& x) {
  if (!std::exchange(x.ended, true))
    self_->send(x.router, retire{});
}

void gateway_state::on_draining(const replica_draining& x) {
  if (!x.handle)
    return; // its node went away while this was on its way
  for (auto& m : models_) {
    if (!m.replicas.contains(x.handle->id()))
      continue;
    self_->send(m.router, x);
    m.unwanted |= x.unwanted;
    remove(m, x.handle->id());
  }
}

void gateway_state::remove(served& m, caf::actor_id replica) {
  if (m.replicas.erase(replica) == 0 || !m.replicas.empty())
    return;
  auto other = std::any_of(models_.begin(), models_.end(), [&](auto& y) {
    return y.info.model == m.info.model && !y.replicas.empty();
  });
  if (m.unwanted || other)
    end(m);
}

void gateway_state::on_down(const caf::down_msg& x) {
  for (auto& m : models_)
    remove(m, x.source.id());
}

void gateway_state::on_describe(const client_describe& x) {
  model_list_reply y;
  for (auto& m : models_)
    if ((x.model.empty() || x.model == m.info.model) && is_for(m, x.from))
      y.models.push_back(m.info);
  bus_->answer(x.from, x.tag, std::move(y));
}

void gateway_state::on_handed_back(handed_back& x) {
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

/// To another version of its model, if that will do for who asked.
result<void> gateway_state::pass_on(routed& x, request& r) {
  auto& before = models_[r.model];
  error ended{ec::unavailable,
              "version " + std::to_string(before.info.version) + " of model '"
                + before.info.model + "' is not served any more",
              {}};
  if (!r.any_version)
    return ended;
  infer again;
  again.model = before.info.model;
  auto chosen = choose(again, r.from->first);
  if (!chosen)
    return ended;
  auto& after = models_[*chosen];
  auto& old = before.info.signature.inputs; // whose order the inputs have
  auto& now = after.info.signature.inputs;
  auto alike = std::equal(old.begin(), old.end(), now.begin(), now.end(),
                          [](auto& a, auto& b) { return a.name == b.name; });
  auto rows = check_inputs(after.info.signature, x.inputs);
  if (!alike || !rows)
    return ended;
  x.rows = *rows;
  --before.open;
  ++after.open;
  r.model = *chosen;
  after.next.requests.push_back(std::move(x));
  return {};
}

} // namespace millrace
