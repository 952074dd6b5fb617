// SPDX-License-Identifier: Apache-2.0
#include "actors/node/supervisor_state.hpp"

#include <algorithm>
#include <set>

#include <caf/exit_reason.hpp>

#include "actors/profiler/measurer_state.hpp"
#include "actors/replica/replica.hpp"
#include "actors/replica/replica_state.hpp"
#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Delay of an inventory, so that changes within it share one message.
constexpr auto tick_time = 20ms;
/// Time for clients to read their last replies: libzmq drops unread messages
/// when a connection closes.
constexpr auto reading_time = 500ms;
constexpr size_t failed_kept = 16;
constexpr auto failed_shown = 1min;
constexpr auto starts_shown = 10min;
constexpr std::string_view executor_prefix = "executor/";

} // namespace

void supervisor_state::start(
  supervisor_actor::stateful_pointer<supervisor_state> self,
  supervisor_options options) {
  self_ = self;
  options_ = std::move(options);
  set_common_handlers(self);
  self->set_down_handler([this](caf::down_msg& x) { on_down(x); });
  self->set_exit_handler([this](caf::exit_msg& x) { on_exit(x); });
  started_ = now();
  for (auto& device : options_.devices)
    configured_[device.id] = device.sharing;
  for (auto& spec : options_.children)
    children_.push_back({spec, {}, restart_budget{}, 0, far_future, ""});
  for (auto& x : children_) {
    // Present in the first scrape.
    options_.counts->actor_restarts(x.spec.name).add(0);
    start_child(x);
  }
  set_state(node_condition::ready);
  // Only a controller needs peers that are not controllers.
  options_.net->subscribe(
    caf::actor_cast<caf::strong_actor_ptr>(self->ctrl()),
    options_.net->self().has_role("controller") ? "" : "controller");
  publish_soon();
}

timestamp supervisor_state::now() const {
  return self_->clock().now();
}

void supervisor_state::on_exit(const caf::exit_msg& message) {
  if (!message.reason)
    return;
  for (auto& [replica, r] : replicas_)
    self_->send_exit(r.handle, caf::exit_reason::user_shutdown);
  for (auto i = children_.rbegin(); i != children_.rend(); ++i)
    if (i->handle)
      self_->send_exit(i->handle, caf::exit_reason::user_shutdown);
  self_->quit(message.reason);
}

// -- children -----------------------------------------------------------------

void supervisor_state::start_child(child& actor) {
  actor.start_at = far_future;
  actor.handle = actor.spec.start(self_);
  actor.state = "running";
  self_->monitor(actor.handle);
  options_.net->publish(actor.spec.name,
                        caf::actor_cast<caf::strong_actor_ptr>(actor.handle));
  if (actor.spec.name == "gateway")
    options_.net->serve_clients(
      caf::actor_cast<caf::strong_actor_ptr>(actor.handle));
}

caf::actor supervisor_state::find_child(const std::string& child_name) const {
  for (auto& x : children_)
    if (x.spec.name == child_name)
      return x.handle;
  return nullptr;
}

void supervisor_state::on_down(const caf::down_msg& message) {
  auto why = from_caf(message.reason);
  for (auto& c : children_)
    if (c.handle && c.handle.address() == message.source)
      return on_child_down(c, why);
  for (auto& [replica, r] : replicas_)
    if (r.handle && r.handle.address() == message.source)
      return on_replica_down(replica, why);
}

void supervisor_state::on_child_down(child& actor, const error& why) {
  actor.handle = nullptr;
  options_.net->publish(actor.spec.name, nullptr);
  if (actor.spec.name.starts_with(executor_prefix)) {
    device_condition fresh{actor.spec.name.substr(executor_prefix.size()), {}};
    on_device(fresh); // the next executor reports its own condition
    set_sharing(fresh.device, std::nullopt);
  }
  if (state_ == node_condition::draining || state_ == node_condition::failed) {
    actor.state = "ended";
    if (actor.spec.name == "gateway") {
      stay_until_ = now() + reading_time;
      finish_replicas();
    }
    return;
  }
  log_event(log_level::error, "supervisor", "child_down",
            {{"actor", actor.spec.name}, {"reason", why.text}});
  auto pause = actor.budget.on_crash(now());
  actor.state = "down: " + why.text;
  if (!pause)
    return fail(actor.spec.name + " crashed more than "
                + std::to_string(actor.budget.most())
                + " times in a minute; last: " + why.text);
  ++actor.restarts;
  options_.counts->actor_restarts(actor.spec.name).add();
  for (auto& y : children_) {
    auto together =
      !actor.spec.group.empty() && y.spec.group == actor.spec.group;
    if (&y != &actor && !together)
      continue;
    y.start_at = now() + *pause; // arm() schedules a tick
    if (&y != &actor && y.handle) {
      self_->demonitor(y.handle.address());
      self_->send_exit(y.handle, caf::exit_reason::kill);
      options_.net->publish(y.spec.name, nullptr);
      y.handle = nullptr;
    }
  }
  arm();
}

void supervisor_state::restart_due() {
  for (auto& x : children_)
    if (x.start_at <= now()) {
      start_child(x);
      publish_soon();
      if (x.spec.name == "placement" || x.spec.name == "profiler")
        ask_for_inventories();
      if (x.spec.name == "chains")
        request_content_reports();
    }
}

void supervisor_state::ask_for_inventories() {
  for (auto& [node, peer] : peers_)
    if (auto to = options_.net->resolve(node + "/supervisor"))
      self_->send(caf::actor_cast<supervisor_actor>(to), report_inventory{});
}

void supervisor_state::request_content_reports() {
  auto ask = [&](const std::string& node) {
    if (auto to = options_.net->resolve(node + "/relay"))
      self_->send(caf::actor_cast<relay_actor>(to), report_contents{});
  };
  ask(options_.net->self().name);
  for (auto& [node, peer] : peers_)
    ask(node);
  for (auto& [store, models] : stored_)
    if (auto to = options_.net->resolve("./stores/" + store))
      self_->send(caf::actor_cast<store_watch_actor>(to), report_contents{});
}

void supervisor_state::fail(std::string reason) {
  log_event(log_level::error, "supervisor", "out_of_service",
            {{"reason", reason}});
  set_state(node_condition::failed, std::move(reason));
  finish_replicas();
  for (auto& x : children_) {
    x.start_at = far_future;
    if (x.handle)
      self_->send_exit(x.handle, caf::exit_reason::user_shutdown);
  }
  publish_soon();
}

void supervisor_state::set_state(node_condition condition, std::string reason) {
  state_ = condition;
  reason_ = std::move(reason);
  options_.state->set(condition, reason_);
  options_.counts->node_ready().set(condition == node_condition::ready ? 1 : 0);
}

// -- replicas -----------------------------------------------------------------

bool supervisor_state::obey(uint64_t epoch, uint64_t sequence) {
  if (epoch < epoch_ || (epoch == epoch_ && sequence <= sequence_)) {
    log_event(log_level::warning, "supervisor", "stale_order",
              {{"epoch", epoch}, {"newest", epoch_}});
    return false;
  }
  if (epoch != epoch_)
    log_event(log_level::info, "supervisor", "obeys",
              {{"node", options_.net->self().name}, {"epoch", epoch}});
  epoch_ = epoch;
  sequence_ = sequence;
  publish_soon();
  return true;
}

void supervisor_state::on_deploy(const deploy& order) {
  if (!obey(order.epoch, order.sequence)
      || replicas_.contains(order.what.replica))
    return;
  auto refuse = [&](std::string why) {
    on_replica_status(
      {order.what, replica_condition::failed, std::move(why), 0, {}, {}, {}});
  };
  if (state_ != node_condition::ready)
    return refuse("the node is " + std::string{to_string(state_)});
  auto device =
    std::find_if(options_.devices.begin(), options_.devices.end(),
                 [&](auto& d) { return d.id == order.what.device; });
  auto executor = find_child("executor/" + order.what.device);
  auto cache = find_child("cache");
  if (device == options_.devices.end() || !executor || !cache)
    return refuse("no device '" + order.what.device + "' is in service");
  if (auto i = device_troubles_.find(device->id); i != device_troubles_.end())
    return refuse("device '" + device->id
                  + "' is out of service: " + i->second);
  replica_options options{order.what,
                          options_.net->self().name,
                          caf::actor_cast<executor_actor>(executor),
                          caf::actor_cast<cache_actor>(cache),
                          supervisor_actor{self_},
                          device->lanes,
                          device->sharing,
                          0,
                          options_.spans};
  if (auto i = replicas_.find(order.what.extends_replica); i != replicas_.end())
    options.extends_replica = i->second.handle.id();
  auto handle = self_->spawn(replica, std::move(options), options_.net);
  self_->monitor(handle);
  options_.net->publish("replica/" + order.what.replica,
                        caf::actor_cast<caf::strong_actor_ptr>(handle));
  replicas_[order.what.replica] = {
    handle, {order.what, replica_condition::starting, {}, 0, {}, {}, {}}};
}

void supervisor_state::on_evict(const evict& order) {
  if (!obey(order.epoch, order.sequence))
    return;
  if (auto i = replicas_.find(order.replica); i != replicas_.end())
    self_->send(i->second.handle, finish{});
}

caf::result<measured> supervisor_state::on_measure(const measure& request) {
  auto device = std::find_if(options_.devices.begin(), options_.devices.end(),
                             [&](auto& d) { return d.id == request.device; });
  auto executor = find_child("executor/" + request.device);
  auto cache = find_child("cache");
  if (state_ != node_condition::ready || device == options_.devices.end()
      || !executor || !cache)
    return to_caf(error{
      ec::unavailable, "no device '" + request.device + "' is in service", {}});
  auto by = self_->spawn(
    measurer, measurer_options{options_.net->self().name + "/" + request.device,
                               device->kind,
                               caf::actor_cast<executor_actor>(executor),
                               caf::actor_cast<cache_actor>(cache),
                               {}});
  return self_->delegate(by, request);
}

void supervisor_state::on_replica_status(const replica_status& message) {
  if (auto i = replicas_.find(message.what.replica); i != replicas_.end()) {
    auto was = std::exchange(i->second.status, message).state;
    if (was == replica_condition::starting
        && message.state == replica_condition::ready)
      show_start(message);
  } else if (message.state == replica_condition::failed)
    keep_failure(message);
  publish_soon();
}

/// All starts of a model version with the same source share one series, even if
/// its replicas come and go, so that a scrape can compare values.
void supervisor_state::show_start(const replica_status& replica) {
  if (!options_.counts->is_on())
    return;
  auto from = where_found(replica.from);
  auto& what = replica.what;
  auto& shown = starts_shown_
                  .try_emplace({what.model, what.version, from},
                               start_series{options_.counts->start_seconds(
                                              {what.model, what.version}, from),
                                            now()})
                  .first->second;
  shown.last = now();
  shown.seconds.observe(
    to_seconds(replica.fetch + replica.load + replica.warm_up));
}

/// Whether this node has a replica of the version, or started one recently.
bool supervisor_state::is_recent(const start_kind& kind,
                                 const start_series& series) const {
  return now() - series.last < starts_shown
         || std::any_of(replicas_.begin(), replicas_.end(), [&](auto& y) {
              auto& what = y.second.status.what;
              return what.model == std::get<0>(kind)
                     && what.version == std::get<1>(kind);
            });
}

void supervisor_state::keep_failure(const replica_status& replica) {
  failed_replicas_.emplace_back(self_->clock().now(), replica);
  if (failed_replicas_.size() > failed_kept)
    failed_replicas_.erase(failed_replicas_.begin());
}

void supervisor_state::on_replica_down(const std::string& replica,
                                       const error& why) {
  auto i = replicas_.find(replica);
  auto status = i->second.status;
  options_.net->publish("replica/" + replica, nullptr);
  replicas_.erase(i);
  if (status.state != replica_condition::failed)
    status.reason = why.text;
  if (status.state != replica_condition::draining) {
    status.state = replica_condition::failed;
    keep_failure(status);
  }
  publish_soon();
}

std::vector<replica_status> supervisor_state::replica_statuses() const {
  std::vector<replica_status> out;
  for (auto& [when, x] : failed_replicas_)
    if (self_->clock().now() - when < failed_shown)
      out.push_back(x);
  for (auto& [replica, r] : replicas_)
    out.push_back(r.status);
  return out;
}

// -- the rest of the cluster --------------------------------------------------

void supervisor_state::on_peer_up(const peer_up& message) {
  peers_[message.peer.name] = message.peer;
  if (message.peer.has_role("controller"))
    publish_soon();
}

void supervisor_state::on_peer_down(const peer_down& message) {
  peers_.erase(message.peer.name);
  if (auto placement = find_child("placement"))
    self_->send(caf::actor_cast<placement_actor>(placement), message);
  if (auto profiler = find_child("profiler"))
    self_->send(caf::actor_cast<profiler_actor>(profiler), message);
  if (auto chains = find_child("chains"))
    self_->send(caf::actor_cast<chain_controller_actor>(chains), message);
}

void supervisor_state::tell_monitor() {
  auto monitor = find_child("monitor");
  if (!monitor)
    return;
  observe x;
  for (auto& d : options_.devices)
    if (auto executor = find_child("executor/" + d.id))
      x.executors[d.id] = caf::actor_cast<executor_actor>(executor);
  for (auto& [replica, r] : replicas_)
    x.replicas[replica] = r.handle;
  self_->send(caf::actor_cast<monitor_actor>(monitor), std::move(x));
}

void supervisor_state::publish() {
  publish_at_ = far_future;
  tell_monitor();
  auto tell = [&](const std::string& node) {
    if (auto to = options_.net->resolve(node + "/placement"))
      self_->send(caf::actor_cast<placement_actor>(to), make_inventory());
    if (auto to = options_.net->resolve(node + "/profiler"))
      self_->send(caf::actor_cast<profiler_actor>(to), make_inventory());
  };
  tell(options_.net->self().name);
  for (auto& [node, peer] : peers_)
    if (peer.has_role("controller"))
      tell(node);
}

// -- time ---------------------------------------------------------------------

void supervisor_state::on_tick() {
  if (!alarm_.rings(now()))
    return;
  restart_due();
  if (publish_at_ <= now())
    publish();
  std::erase_if(starts_shown_,
                [&](auto& x) { return !is_recent(x.first, x.second); });
  if (state_ == node_condition::draining)
    drain_step();
  arm();
}

void supervisor_state::publish_soon() {
  publish_at_ = std::min(publish_at_, now() + tick_time);
  arm();
}

void supervisor_state::arm() {
  auto due = publish_at_;
  for (auto& [kind, x] : starts_shown_)
    if (now() < x.last + starts_shown)
      due = std::min(due, x.last + starts_shown);
  for (auto& x : children_)
    due = std::min(due, x.start_at);
  if (state_ == node_condition::draining && !ended_)
    due = std::min(due, now() + tick_time);
  alarm_.set(self_, due);
}

ack supervisor_state::on_drain() {
  if (state_ == node_condition::draining)
    return {};
  log_event(log_level::info, "supervisor", "draining");
  set_state(node_condition::draining, "asked to drain");
  drain_until_ = now() + options_.drain_timeout;
  for (auto& x : children_)
    x.start_at = far_future;
  publish();
  arm();
  // Requests in a gateway may wait for replicas of this node.
  if (auto gateway = find_child("gateway")) {
    self_->send(caf::actor_cast<gateway_actor>(gateway), finish{});
    for (auto& [replica, r] : replicas_)
      self_->send(r.handle, finish_elsewhere{});
  } else {
    finish_replicas();
  }
  return {};
}

void supervisor_state::finish_replicas() {
  for (auto& [replica, r] : replicas_)
    self_->send(r.handle, finish{});
}

void supervisor_state::drain_step() {
  auto idle =
    replicas_.empty() && !find_child("gateway") && now() >= stay_until_;
  if (ended_ || (!idle && now() < drain_until_))
    return;
  ended_ = true;
  log_event(log_level::info, "supervisor", "drained",
            {{"replicas_left", replicas_.size()}});
  options_.ended();
}

supervisor_actor::behavior_type
supervisor(supervisor_actor::stateful_pointer<supervisor_state> self,
           supervisor_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](const deploy& x) { s.on_deploy(x); },
    [&s](const adjust& x) { s.on_adjust(x); },
    [&s](const adjust_device& x) { s.on_adjust_device(x); },
    [&s](const slow_device& x) { return s.on_slow_device(x); },
    [&s](const evict& x) { s.on_evict(x); },
    [&s](const replica_status& x) { s.on_replica_status(x); },
    [&s](const peer_up& x) { s.on_peer_up(x); },
    [&s](const peer_down& x) { s.on_peer_down(x); },
    [&s](bundle_list& x) { s.on_bundles(x); },
    [&s](stored_models& x) { s.on_stored(x); },
    [&s](device_condition& x) { s.on_device(x); },
    [&s](report_inventory) { s.publish_soon(); },
    [&s](const measure& x) { return s.on_measure(x); },
    [&s](get_members) { return s.on_get_members(); },
    [&s](get_status) { return s.on_get_status(); },
    [&s](drain) { return s.on_drain(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
