// SPDX-License-Identifier: Apache-2.0
#include "actors/gateway/gateway_state.hpp"

#include <algorithm>
#include <utility>

#include <caf/exit_reason.hpp>

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// A client's inputs in the order of the signature. Either all inputs have a
/// name or none has.
result<tensor_list> in_order(const signature& s,
                             std::vector<named_tensor>& xs) {
  tensor_list out;
  out.reserve(xs.size());
  if (xs.empty() || xs.front().name.empty()) {
    for (auto& x : xs)
      out.push_back(std::move(x.value));
    return out;
  }
  for (auto& spec : s.inputs) {
    auto i = std::find_if(xs.begin(), xs.end(),
                          [&](auto& x) { return x.name == spec.name; });
    if (i == xs.end())
      return error{
        ec::bad_request, "no input is named '" + spec.name + "'", {}};
    out.push_back(std::move(i->value));
  }
  if (out.size() != xs.size())
    return error{
      ec::bad_request,
      "the model takes the inputs "
        + joined(s.inputs, ", ", [](auto& x) { return to_string(x); })
        + "; the request has an unknown input, or one twice",
      {}};
  return out;
}

} // namespace

void gateway_state::start(gateway_actor::stateful_pointer<gateway_state> self,
                          gateway_options options, bus* net,
                          std::shared_ptr<metrics> counts) {
  self_ = self;
  bus_ = net;
  counts_ = std::move(counts);
  options_ = options;
  set_common_handlers(self);
  self->set_down_handler([this](caf::down_msg& x) { on_down(x); });
  begun_ = all_reported_ = now();
  if (options_.demand_period > 0us) {
    net->subscribe(caf::actor_cast<caf::strong_actor_ptr>(self->ctrl()),
                   "controller");
    report_due_ = begun_ + options_.demand_period;
    arm();
  }
}

timestamp gateway_state::now() const {
  return self_->clock().now();
}

// -- admission ----------------------------------------------------------------

void gateway_state::on_requests(request_group& message) {
  auto time = now();
  auto& from = *clients_.try_emplace(message.from).first;
  for (auto& request : message.requests)
    if (auto done = admit(request, from, time); !done)
      refuse(request, message.from, done.failure());
  send_routes();
  forget_idle(message.from);
  arm();
}

void gateway_state::send_routes() {
  for (auto i : to_send_)
    self_->send(models_[i].router, std::exchange(models_[i].next, {}));
  to_send_.clear();
}

void gateway_state::hand_to_router(size_t model, routed passed) {
  auto& next = models_[model].next.requests;
  if (next.empty())
    to_send_.push_back(model);
  next.push_back(std::move(passed));
}

void gateway_state::forget_idle(const session& client) {
  auto i = clients_.find(client);
  if (i != clients_.end() && i->second.requests.empty())
    clients_.erase(i);
}

bool gateway_state::is_for(const std::vector<std::string>& tenants,
                           const session& from) const {
  return tenants.empty()
         || std::count(tenants.begin(), tenants.end(),
                       options_.tenants.at(from.endpoint))
              != 0;
}

bool gateway_state::is_for(const served& model, const session& from) const {
  return !model.ended && is_for(model.tenants, from);
}

result<size_t> gateway_state::choose(const infer& request,
                                     const session& from) const {
  // Most requests name a model with one version.
  std::optional<size_t> only;
  size_t found = 0;
  auto named = by_name_.find(request.model);
  if (named != by_name_.end())
    for (auto i : named->second)
      if (is_for(models_[i], from)) {
        only = i;
        ++found;
      }
  if (found == 1 && request.version.empty())
    return *only;
  if (request.model.empty() && options_.selection != selection_policy::quickest)
    if (auto chosen = choose_by_cost(request, from))
      return *chosen;
  std::vector<variant_view> views;
  std::vector<size_t> places;
  auto time = now();
  for (size_t i = 0; i < models_.size(); ++i) {
    auto& m = models_[i];
    if (!is_for(m, from) || (found > 0 && m.info.model != request.model))
      continue;
    places.push_back(i);
    // An old latency does not count: a variant that was slow once would never
    // be chosen again.
    auto known = time - m.latency_learned < options_.latency_valid;
    views.push_back({m.info.model, m.info.version, m.info.application,
                     m.info.aliases, m.info.accuracy,
                     known ? m.latency : microseconds{0}, is_ready(m),
                     m.waits && m.obstacle.empty()});
  }
  auto chosen =
    choose_variant(views, {request.model, request.version, request.application,
                           request.accuracy, request.latency});
  if (chosen)
    return places[*chosen];
  if (chosen.failure().code == ec::unknown_model)
    if (auto why = why_not_yet(request, from))
      return std::move(*why);
  return chosen;
}

/// The error for a model that may be served soon: this gateway or the model has
/// just started. None: the model is unknown.
std::optional<error> gateway_state::why_not_yet(const infer& request,
                                                const session& from) const {
  constexpr microseconds soon = 100ms;
  if (wanted_.epoch == 0)
    return error{ec::unavailable,
                 "this gateway has no list of models from a controller yet",
                 soon};
  for (auto& y : wanted_.models) {
    auto named = request.model.empty()
                   ? y.application == request.application
                   : y.model == request.model
                       && (request.version.empty()
                           || request.version == std::to_string(y.version));
    if (named && is_for(y.tenants, from))
      return error{ec::unavailable,
                   "no replica of model " + shown(y.model)
                     + " has been ready yet"
                     + (y.note.empty() ? "" : ": " + y.note),
                   soon};
  }
  return std::nullopt;
}

result<void> gateway_state::check_room(const client_request& request,
                                       const client& from, size_t bytes) const {
  auto full = [](const std::string& what) {
    return error{ec::overloaded, what + " is reached", microseconds{10'000}};
  };
  if (in_flight_.size() >= options_.max_requests)
    return full("the gateway's limit of open requests");
  auto most =
    std::min(options_.max_bytes.value, options_.max_client_bytes.value);
  if (bytes > most)
    return error{ec::too_large,
                 "the inputs have " + format_bytes(bytes)
                   + "; one client may have " + format_bytes(most) + " open",
                 {}};
  if (bytes_ + bytes > options_.max_bytes.value)
    return full("the gateway's limit of bytes in open requests");
  if (from.bytes + bytes > options_.max_client_bytes.value)
    return full("the client's limit of bytes in open requests");
  if (from.requests.contains(request.tag.id))
    return error{ec::bad_request,
                 "a request with id " + std::to_string(request.tag.id)
                   + " is still open",
                 {}};
  return {};
}

result<void> gateway_state::admit(client_request& request,
                                  client_map::value_type& from,
                                  timestamp time) {
  if (finishing_)
    return error{ec::unavailable, "this gateway is shutting down", {}};
  auto chosen = choose(request.request, from.first);
  if (!chosen)
    return chosen.failure();
  auto& model = models_[*chosen];
  if (model.replicas.empty() && !model.obstacle.empty()) {
    model.demand->arrived(0, time);
    model.demand->answered(ec::unavailable, 0us, 0us, 0us);
    return stuck(model);
  }
  auto bytes = bytes_of(request.request.inputs);
  if (auto room = check_room(request, from.second, bytes); !room) {
    if (room.failure().code == ec::overloaded) {
      model.demand->arrived(0, time);
      model.demand->answered(ec::overloaded, 0us, 0us, 0us);
    }
    return room;
  }
  auto inputs = in_order(model.info.signature, request.request.inputs);
  if (!inputs)
    return inputs.failure();
  auto rows = check_inputs(model.info.signature, *inputs);
  if (!rows)
    return std::move(rows.failure()).within("model '" + model.info.model + "'");
  auto due = request.due.at == far_future ? time + model.policy.deadline
                                          : request.due.at;
  due = std::min(due, time + options_.max_deadline);
  if (due <= time)
    return error{ec::deadline_exceeded, "no time was left on arrival", {}};
  auto key = ++last_key_;
  bytes_ += bytes;
  from.second.requests.emplace(request.tag.id, key);
  from.second.bytes += bytes;
  auto& r = in_flight_[key];
  r.from = &from;
  r.tag = request.tag;
  r.model = *chosen;
  r.any_version = !number_in<uint64_t>(request.request.version);
  r.arrived = time;
  r.due = due;
  r.bytes = bytes;
  r.named = words_of(request);
  if (r.any_version
      && (request.request.model.empty() || !request.request.version.empty())) {
    request.request.inputs.clear();
    r.asked = std::make_unique<const infer>(request.request);
  }
  request.taken = true;
  model.demand->arrived(*rows, time);
  ++model.open;
  deadlines_.push(due, key);
  hand_to_router(*chosen, {key,
                           {due},
                           request.priority,
                           std::move(*inputs),
                           *rows,
                           !request.request.idempotent,
                           {}});
  if (model.waits && model.replicas.empty() && model.open == 1)
    press(model);
  return {};
}

void gateway_state::refuse(client_request& request, const session& from,
                           const error& why) {
  count_refused(request.request.model, from, why.code);
  remember(request, from, why);
  infer_reply y;
  y.status = why.code;
  y.error = why.text;
  y.retry_after = why.retry_after;
  request.taken = true;
  bus_->answer(from, request.tag, std::move(y));
}

// -- the end of a request -----------------------------------------------------

void gateway_state::finish_request(uint64_t key, request& r, infer_reply reply,
                                   timestamp time,
                                   const requests_completed* by) {
  auto& model = models_[r.model];
  reply.model = model.info.model;
  reply.version = model.info.version;
  reply.total = to_us(time - r.arrived);
  if (reply.status == ec::deadline_exceeded && !r.vain.empty())
    reply.error += "; an earlier attempt failed: " + r.vain.back().why;
  answers_of(model, r.from->first.endpoint, reply.status).add();
  model.demand->answered(reply.status, reply.queue, reply.total,
                         to_us(r.due - r.arrived));
  show_times(model);
  model.total_time->observe(to_seconds(reply.total));
  remember(key, r, reply, time, by);
  auto& [from, open] = *r.from;
  bus_->answer(from, r.tag, std::move(reply));
  --model.open;
  hide_if_over(model);
  bytes_ -= r.bytes;
  open.bytes -= r.bytes;
  open.requests.erase(r.tag.id);
  if (open.requests.empty())
    clients_.erase(clients_.find(from));
  in_flight_.erase(key);
  deadlines_.sweep(in_flight_.size(),
                   [this](uint64_t k) { return in_flight_.contains(k); });
  end_if_finished();
}

void gateway_state::end_if_finished() {
  if (!finishing_ || closed_ || !in_flight_.empty())
    return;
  // From now on the bus refuses requests. Requests in the mailbox are refused
  // here: they arrive before the second finish.
  closed_ = true;
  bus_->serve_clients(nullptr);
  self_->send(self_, finish{});
}

gateway_state::~gateway_state() {
  if (bus_ != nullptr)
    bus_->serve_clients(nullptr);
  for (auto& [key, r] : in_flight_) {
    infer_reply x;
    x.status = ec::unavailable;
    x.error = "the gateway ended before it had an answer";
    bus_->answer(r.from->first, r.tag, std::move(x));
  }
}

void gateway_state::on_completed(requests_completed& message) {
  auto time = now();
  note_execution(message);
  for (auto& y : message.outcomes)
    settle(y, message, time);
}

/// Counts an executed batch for its model, which any open request of the batch
/// names.
void gateway_state::note_execution(const requests_completed& message) {
  auto ran = static_cast<uint64_t>(
    std::count_if(message.outcomes.begin(), message.outcomes.end(),
                  [](auto& y) { return y.status == ec::ok; }));
  if (ran == 0)
    return;
  for (auto& y : message.outcomes)
    if (auto i = in_flight_.find(y.key); i != in_flight_.end())
      return models_[i->second.model].demand->executed(message, ran);
}

void gateway_state::settle(outcome& answer, const requests_completed& with,
                           timestamp time) {
  auto i = in_flight_.find(answer.key);
  if (i == in_flight_.end()) {
    counts_->late_answers("settled_already").add();
    add_late(answer);
    return;
  }
  auto& r = i->second;
  auto& model = models_[r.model];
  r.attempts = answer.attempts;
  r.vain = std::move(answer.vain);
  infer_reply y;
  y.status = answer.status;
  y.error = std::move(answer.text);
  y.retry_after = answer.retry_after;
  y.replica = with.replica;
  y.batch = static_cast<uint32_t>(with.outcomes.size());
  y.queue = answer.queue;
  y.execute = with.execute;
  y.gathered = answer.gathered;
  y.interference = with.interference;
  if (answer.status == ec::ok && time > r.due) {
    y.status = ec::deadline_exceeded;
    y.error = "the result came after the deadline";
  } else if (answer.status == ec::ok) {
    auto& names = model.info.signature.outputs;
    for (size_t k = 0; k < answer.outputs.size(); ++k)
      y.outputs.push_back({k < names.size() ? names[k].name : std::string{},
                           std::move(answer.outputs[k])});
    auto is_first = model.latency_learned == timestamp{};
    model.latency += (with.execute - model.latency) / (is_first ? 1 : 8);
    model.latency_learned = time;
    show_times(model);
    model.queue_time->observe(to_seconds(answer.queue));
    model.execute_time->observe(to_seconds(with.execute));
    model.gathered_time->observe(to_seconds(answer.gathered));
    model.interference_time->observe(to_seconds(with.interference));
  }
  finish_request(answer.key, r, std::move(y), time, &with);
}

void gateway_state::on_tick() {
  auto time = now();
  if (!alarm_.rings(time))
    return;
  deadlines_.take_due(time, [&](uint64_t key) {
    auto i = in_flight_.find(key);
    if (i == in_flight_.end())
      return;
    self_->send(models_[i->second.model].router, cancel_request{key});
    infer_reply x;
    x.status = ec::deadline_exceeded;
    auto& model = models_[i->second.model];
    x.error = "no replica of model '" + model.info.model + "' "
              + (model.replicas.empty() ? "was ready" : "answered")
              + " in time";
    finish_request(key, i->second, std::move(x), time);
  });
  if (report_due_ <= time)
    begin_report();
  arm();
}

void gateway_state::arm() {
  alarm_.set(self_, std::min(deadlines_.next_due(), report_due_));
}

void gateway_state::cancel(uint64_t key, const char* why) {
  auto& r = in_flight_.at(key);
  self_->send(models_[r.model].router, cancel_request{key});
  infer_reply y;
  y.status = ec::cancelled;
  y.error = why;
  finish_request(key, r, std::move(y), now());
}

void gateway_state::on_cancel(const client_cancel& message) {
  auto from = clients_.find(message.from);
  if (from == clients_.end())
    return;
  auto i = from->second.requests.find(message.id);
  if (i != from->second.requests.end())
    cancel(i->second, "cancelled by the client");
  // Otherwise the request is answered already.
}

void gateway_state::on_left(const client_left& message) {
  auto from = clients_.find(message.from);
  if (from == clients_.end())
    return;
  std::vector<uint64_t> open;
  for (auto& [id, key] : from->second.requests)
    open.push_back(key);
  for (auto key : open)
    cancel(key, "the client has left");
}

void gateway_state::on_finish() {
  finishing_ = true;
  if (!closed_)
    return end_if_finished();
  for (auto& m : models_)
    self_->send_exit(m.router, caf::exit_reason::user_shutdown);
  self_->quit();
}

gateway_actor::behavior_type
gateway(gateway_actor::stateful_pointer<gateway_state> self,
        gateway_options options, bus* net, std::shared_ptr<metrics> counts) {
  auto& s = self->state;
  s.start(self, options, net, std::move(counts));
  return {
    [&s](client_requests& x) { s.on_requests(*x.group); },
    [&s](requests_completed& x) { s.on_completed(x); },
    [&s](requests_returned& x) { s.on_returned(x); },
    [&s](request_track& x) { s.on_track(x); },
    [&s](const backlog& x) { s.on_backlog(x); },
    [&s](const peer_up& x) { s.on_peer_up(x); },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](const model_availability& x) { s.on_model_availability(x); },
    [&s](wanted_models& x) { s.on_wanted(x); },
    [&s](const get_requests& x) { return s.on_get_requests(x); },
    [&s](const client_cancel& x) { s.on_cancel(x); },
    [&s](const client_left& x) { s.on_left(x); },
    [&s](const client_describe& x) { s.on_describe(x); },
    [&s](replica_ready& x) { s.on_ready(x); },
    [&s](const replica_tuned& x) { s.on_tuned(x); },
    [&s](const replica_draining& x) { s.on_draining(x); },
    [&s](finish) { s.on_finish(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
