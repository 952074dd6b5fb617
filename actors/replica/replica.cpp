// SPDX-License-Identifier: Apache-2.0
#include "actors/replica/replica_state.hpp"

#include "runtime/log.hpp"

namespace millrace {

namespace {

/// Verifying and loading a large bundle from a slow disk takes minutes.
constexpr auto load_timeout = 10min;

/// When a gateway's node is there but its gateway is not: it is being
/// restarted.
constexpr auto announce_again = 200ms;

/// How long batches that were sent before their router heard of the drain may
/// still arrive.
constexpr auto linger = 300ms;

} // namespace

void replica_state::start(replica_actor::stateful_pointer<replica_state> self,
                          replica_options options, bus* net) {
  self_ = self;
  options_ = std::move(options);
  bus_ = net;
  instance_ = self->id();
  set_common_handlers(self);
  self->set_down_handler([this](caf::down_msg& x) { on_down(x); });
  self->monitor(options_.executor);
  self->monitor(options_.cache);
  report(replica_condition::starting);
  self
    ->request(options_.cache, load_timeout,
              fetch{options_.what.model, options_.what.version})
    .then([this](const fetched& x) { load(x); },
          [this](const caf::error& x) { fail(x, "fetch"); });
}

replica_state::~replica_state() {
  if (self_ == nullptr)
    return;
  self_->demonitor(options_.executor.address());
  self_->demonitor(options_.cache.address());
  for (auto& [node, gateway] : gateways_)
    if (gateway)
      self_->demonitor(gateway.address());
}

void replica_state::load(const fetched& x) {
  content_ = x.content;
  info_ = x.info;
  self_
    ->request(options_.executor, load_timeout,
              load_stage{instance_, content_, 0, content_->info.layers.size(),
                         options_.what.policy.batch, options_.what.threads,
                         options_.what.trusted})
    .then([this](const stage_loaded& y) { on_loaded(y); },
          [this](const caf::error& y) { fail(y, "load"); });
}

void replica_state::on_loaded(const stage_loaded& x) {
  loaded_ = x;
  if (finishing_)
    return;
  ready_ = true;
  log_event(log_level::info, "replica", "ready",
            {{"replica", options_.what.replica},
             {"device", options_.what.device},
             {"load_us", x.load.count()},
             {"warm_up_us", x.warm_up.count()}});
  report(leaving_ ? replica_condition::draining : replica_condition::ready);
  announce_to(options_.node);
  bus_->subscribe(caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl()),
                  "gateway");
}

void replica_state::fail(const caf::error& why, const char* doing) {
  auto x = from_caf(why);
  log_event(log_level::error, "replica", "failed",
            {{"replica", options_.what.replica},
             {"doing", doing},
             {"error", to_string(x)}});
  report(replica_condition::failed, std::string{doing} + ": " + x.text);
  self_->quit(why);
}

void replica_state::report(replica_condition state, std::string reason) {
  self_->send(options_.supervisor,
              replica_status{options_.what, state, std::move(reason),
                             loaded_.memory, loaded_.load, loaded_.warm_up});
}

// -- gateways -----------------------------------------------------------------

bool replica_state::serves(const std::string& node) const {
  return ready_ && !finishing_ && (!leaving_ || node == options_.node);
}

void replica_state::announce_to(const std::string& node) {
  if (!serves(node))
    return;
  auto gateway = bus_->resolve(node + "/gateway");
  if (!gateway)
    return; // not there yet, or not a gateway
  replica_ready x;
  x.name = options_.what.replica;
  x.node = options_.node;
  x.device = options_.what.device;
  x.info = info_;
  x.tenants = options_.what.tenants;
  x.policy = options_.what.policy;
  x.credit = options_.lanes + 1;
  x.handle = caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl());
  auto to = caf::actor_cast<caf::actor>(gateway);
  self_->monitor(to);
  gateways_[node] = to;
  self_->send(caf::actor_cast<gateway_actor>(gateway), std::move(x));
}

void replica_state::on_peer_up(const peer_up& x) {
  announce_to(x.peer.name);
}

void replica_state::on_down(const caf::down_msg& x) {
  // A replica without its device is none; a device without one replica is.
  if (x.source == options_.executor.address())
    return self_->quit(x.reason);
  if (x.source == options_.cache.address()) {
    if (!content_) // what it was asked for will not come
      fail(x.reason, "fetch");
    return;
  }
  auto lost = std::find_if(gateways_.begin(), gateways_.end(), [&](auto& g) {
    return g.second.address() == x.source;
  });
  if (lost == gateways_.end())
    return;
  lost->second = nullptr;
  self_->delayed_send(self_, announce_again, tick::value);
}

void replica_state::on_tick() {
  if (finishing_) {
    lingered_ = true;
    return end_if_idle();
  }
  bool missing = false;
  for (auto& [node, gateway] : gateways_) {
    if (gateway || !serves(node))
      continue;
    announce_to(node);
    missing = missing || !gateway;
  }
  if (missing)
    self_->delayed_send(self_, announce_again, tick::value);
}

// -- work ---------------------------------------------------------------------

void replica_state::on_run(run_batch& x) {
  auto id = ++last_;
  batch mine{x.id, self_->current_sender(), x.trace, {}};
  if (x.trace != 0)
    mine.arrived = self_->clock().now();
  running_.emplace(id, std::move(mine));
  execute y;
  y.id = id;
  y.instance = instance_;
  y.share = options_.what.share;
  y.trace = x.trace;
  y.items.reserve(x.items.size());
  timestamp last{};
  for (auto& item : x.items) {
    last = std::max(last, item.due.at);
    y.items.push_back(std::move(item.inputs));
  }
  if (options_.what.policy.drop == drop_policy::late)
    y.until = {last};
  self_->send(options_.executor, std::move(y));
}

void replica_state::on_executed(executed& x) {
  auto i = running_.find(x.id);
  if (i == running_.end())
    return;
  if (i->second.trace != 0 && options_.spans->on())
    options_.spans->add("replica/", options_.what.replica, "has",
                        i->second.arrived, self_->clock().now(), 0,
                        i->second.trace);
  busy_ += x.run;
  ++batches_;
  requests_ += x.outputs.size();
  batch_done y;
  y.id = i->second.id;
  y.status = x.status;
  y.text = std::move(x.text);
  y.outputs = std::move(x.outputs);
  y.queue = x.queue;
  y.execute = x.run;
  y.credit = lost_ ? 0 : 1;
  self_->send(caf::actor_cast<router_actor>(i->second.from), std::move(y));
  running_.erase(i);
  end_if_idle();
}

replica_load replica_state::on_get_load() const {
  return {options_.what.replica, busy_, batches_, requests_, running_.size()};
}

void replica_state::tell_to_stop(const std::string& node,
                                 const caf::actor& gateway) {
  if (gateway && serves(node))
    self_->send(
      caf::actor_cast<gateway_actor>(gateway),
      replica_draining{caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl())});
}

void replica_state::stop_serving() {
  for (auto& [node, gateway] : gateways_)
    tell_to_stop(node, gateway);
  finishing_ = true;
  self_->delayed_send(self_, linger, tick::value);
}

void replica_state::on_finish_elsewhere() {
  if (finishing_ || leaving_)
    return;
  report(replica_condition::draining);
  for (auto& [node, gateway] : gateways_)
    if (node != options_.node)
      tell_to_stop(node, gateway);
  leaving_ = true;
}

void replica_state::on_finish() {
  if (finishing_)
    return;
  report(replica_condition::draining);
  stop_serving();
}

void replica_state::on_lost(const stage_lost& x) {
  if (lost_)
    return;
  lost_ = true;
  log_event(log_level::error, "replica", "lost",
            {{"replica", options_.what.replica}, {"error", x.text}});
  report(replica_condition::failed, x.text);
  if (!finishing_)
    stop_serving();
}

void replica_state::end_if_idle() {
  if (lingered_ && running_.empty())
    self_->quit();
}

replica_actor::behavior_type
replica(replica_actor::stateful_pointer<replica_state> self,
        replica_options options, bus* net) {
  auto& s = self->state;
  s.start(self, std::move(options), net);
  return {
    [&s](run_batch& x) { s.on_run(x); },
    [&s](executed& x) { s.on_executed(x); },
    [&s](const stage_lost& x) { s.on_lost(x); },
    [&s](const peer_up& x) { s.on_peer_up(x); },
    [](const peer_down&) { /* the gateway's proxy goes down itself */ },
    [&s](get_load) { return s.on_get_load(); },
    [&s](finish_elsewhere) { s.on_finish_elsewhere(); },
    [&s](finish) { s.on_finish(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
