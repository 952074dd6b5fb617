// SPDX-License-Identifier: Apache-2.0
#include "actors/replica/replica_state.hpp"

#include "models/confined/arena.hpp"
#include "runtime/log.hpp"
#include "runtime/units.hpp"
#include "transport/remote_actor.hpp"
#include "transport/wire_limits.hpp"

namespace millrace {

namespace {

/// Verifying and loading a large bundle from a slow disk takes minutes, and may
/// wait for other loads; in the background (aside) for all other work. Devices
/// end a hanging process long before.
constexpr caf::timespan load_timeout = 60min, aside_timeout = 24h;

/// A gateway that is down on a live node is being restarted: the replica
/// retries the announcement until `restarting` has passed. A node that rejoins
/// sends peer_up.
constexpr auto announce_again = 200ms;
constexpr auto restarting = 1min;

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
  log_event(
    log_level::info, "replica", "starting",
    {{"replica", options_.what.replica}, {"device", options_.what.device}});
  report(replica_condition::starting);
  begun_ = self->clock().now();
  self
    ->request(options_.cache, load_timeout,
              fetch{options_.what.model, options_.what.version,
                    options_.what.layers, options_.what.content,
                    options_.what.extends_replica.empty()
                      ? transfer_rank::start
                      : transfer_rank::completion,
                    options_.what.bytes})
    .then(
      [this](const fetched& x) {
        fetch_ = to_us(self_->clock().now() - begun_);
        from_ = x.from;
        report(replica_condition::starting);
        load(x);
      },
      [this](const caf::error& x) { fail(x, "fetch"); });
}

replica_state::~replica_state() {
  if (self_ == nullptr)
    return;
  self_->demonitor(options_.executor.address());
  self_->demonitor(options_.cache.address());
  for (auto& [node, gateway] : gateways_)
    if (gateway.handle)
      self_->demonitor(gateway.handle.address());
  for (auto& [id, router] : routers_)
    self_->demonitor(router->address());
  for (auto& [id, next] : next_)
    self_->demonitor(next.handle->address());
}

void replica_state::load(const fetched& answer) {
  content_ = answer.content;
  info_ = answer.info;
  layers_ = options_.what.layers;
  auto all = content_->info.layers.size();
  if (layers_.last == 0)
    layers_.last = all;
  if (layers_.first >= layers_.last || layers_.last > all)
    return fail(to_caf({ec::bad_request,
                        "the bundle has " + std::to_string(all)
                          + " layers, and was to be loaded from "
                          + std::to_string(layers_.first) + " to "
                          + std::to_string(layers_.last),
                        {}}),
                "load");
  loading_as_ = options_.what.tuned;
  self_
    ->request(
      options_.executor,
      options_.extends_replica == 0 ? load_timeout : aside_timeout,
      load_stage{instance_, content_, layers_.first, layers_.last,
                 options_.what.batch_max, options_.what.tuned.threads,
                 options_.what.share, options_.what.trusted,
                 options_.extends_replica, options_.what.skip_warm_up,
                 static_cast<uint32_t>(options_.what.tuned.concurrency)})
    .then([this](const stage_loaded& y) { on_loaded(y); },
          [this](const caf::error& y) { fail(y, "load"); });
}

void replica_state::on_loaded(const stage_loaded& message) {
  loaded_ = message;
  if (options_.what.tuned != loading_as_)
    tune();
  fetch_ += message.came;
  // Load time counts only after the last weights arrived.
  loaded_.load = std::max(0us, to_us(self_->clock().now() - begun_) - fetch_
                                 - message.warm_up);
  if (is_ending())
    return;
  life_ =
    life_ == replica_life::starting ? replica_life::ready : replica_life::local;
  ready_at_ = self_->clock().now();
  log_event(log_level::info, "replica", "ready",
            {{"replica", options_.what.replica},
             {"device", options_.what.device},
             {"from", from_},
             {"fetch_us", fetch_.count()},
             {"bytes", bytes_of_weights()},
             {"load_us", message.load.count()},
             {"warm_up_us", message.warm_up.count()}});
  report_condition();
  announce_to(options_.node);
  bus_->subscribe(caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl()),
                  "gateway");
}

/// Size of the weights of its layers, by the manifest.
uint64_t replica_state::bytes_of_weights() const {
  uint64_t out = 0;
  for (auto i = layers_.first; i < layers_.last; ++i)
    out += content_->info.layers[i].parameter_bytes;
  return out;
}

void replica_state::fail(const caf::error& why, const char* doing) {
  auto x = from_caf(why);
  excused_ = x.code == ec::cancelled; // not caused by the model
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
                             loaded_.memory, loaded_.load, loaded_.warm_up,
                             fetch_, excused_, from_, first_answer_});
}

/// Reports the condition, unless a loss was reported.
void replica_state::report_condition() {
  switch (life_) {
  case replica_life::starting:
  case replica_life::starting_local:
    return report(replica_condition::starting);
  case replica_life::ready:
    return report(replica_condition::ready);
  case replica_life::local:
  case replica_life::finishing:
    return report(replica_condition::draining);
  case replica_life::lost:
    return;
  }
}

// -- gateways -----------------------------------------------------------------

bool replica_state::serves(const std::string& node) const {
  return life_ == replica_life::ready
         || (life_ == replica_life::local && node == options_.node);
}

void replica_state::announce_to(const std::string& node) {
  if (!serves(node))
    return;
  auto gateway = bus_->resolve(node + "/gateway");
  if (!gateway)
    return; // the gateway is not up yet, or the node has none
  replica_ready x;
  x.name = options_.what.replica;
  x.node = options_.node;
  x.device = options_.what.device;
  x.info = info_;
  x.layers = layers_;
  x.tenants = options_.what.tenants;
  x.policy = options_.what.policy;
  x.limits = limits();
  x.handle = caf::actor_cast<caf::strong_actor_ptr>(self_->ctrl());
  auto to = caf::actor_cast<caf::actor>(gateway);
  self_->monitor(to);
  x.promise = ++last_promise_;
  x.confined = loaded_.confined;
  gateways_[node] = {to, x.promise, false, false, {}};
  self_->send(caf::actor_cast<gateway_actor>(gateway), std::move(x));
}

void replica_state::on_peer_up(const peer_up& message) {
  announce_to(message.peer.name);
}

void replica_state::on_down(const caf::down_msg& message) {
  // A replica ends with its executor.
  if (message.source == options_.executor.address())
    return self_->quit(message.reason);
  if (message.source == options_.cache.address()) {
    if (!content_) // the fetch will not be answered
      return fail(message.reason, "fetch");
    cache_lost_ = true;
    return self_->delayed_send(self_, announce_again, tick::value);
  }
  auto lost = std::find_if(gateways_.begin(), gateways_.end(), [&](auto& g) {
    return g.second.handle.address() == message.source;
  });
  if (lost == gateways_.end()) {
    if (auto next = next_.extract(message.source.id()))
      return on_next_down(next.mapped().replica);
    return on_router_down(message.source.id());
  }
  lost->second = {};
  lost->second.gone = self_->clock().now();
  self_->delayed_send(self_, announce_again, tick::value);
  end_if_idle();
}

/// Reports the content in use to a restarted cache. False: no cache is up yet.
bool replica_state::tell_cache() {
  auto cache = bus_->resolve("./cache");
  if (!cache)
    return false;
  cache_lost_ = false;
  options_.cache = caf::actor_cast<cache_actor>(cache);
  self_->monitor(options_.cache);
  self_->send(options_.cache,
              content_here{info_.content, info_, content_, options_.what.layers,
                           from_ == "disk"});
  return true;
}

void replica_state::on_tick() {
  auto now = self_->clock().now();
  std::erase_if(gateways_, [&](auto& x) {
    return !x.second.handle && now - x.second.gone > restarting;
  });
  bool missing = cache_lost_ && !tell_cache();
  for (auto& [node, gateway] : gateways_) {
    if (gateway.handle || !serves(node))
      continue;
    announce_to(node);
    missing = missing || !gateway.handle;
  }
  if (missing)
    self_->delayed_send(self_, announce_again, tick::value);
}

// -- work ---------------------------------------------------------------------

bool replica_state::is_announced_to(const caf::strong_actor_ptr& router) const {
  return gateways_.contains(node_of(router, options_.node));
}

void replica_state::on_run(run_batch& message) {
  auto& through = message.through;
  auto from = through ? through->router : self_->current_sender();
  if (!from || (through && is_void(message.id, *through)))
    return; // the router's node is down, or the router dropped the batch
  if (!is_announced_to(from)) {
    log_event(log_level::warning, "replica", "batch_refused",
              {{"replica", options_.what.replica},
               {"node", node_of(from, options_.node)},
               {"reason", "not announced to the gateway of the node"}});
    return;
  }
  auto now = self_->clock().now();
  if (came_ != timestamp{})
    gaps_.add(now - came_);
  came_ = now;
  auto id = ++last_;
  batch mine;
  mine.id = message.id;
  mine.from = from;
  mine.trace = message.trace;
  if (message.trace != 0)
    mine.arrived = now;
  execution y;
  y.id = id;
  y.instance = instance_;
  y.share = options_.what.share;
  y.trace = message.trace;
  y.items.reserve(message.items.size());
  timestamp last{}, soonest = through ? through->soonest.at : far_future;
  for (auto& item : message.items) {
    last = std::max(last, item.due.at);
    soonest = std::min(soonest, item.due.at);
    y.items.push_back(std::move(item.inputs));
  }
  if (options_.what.policy.drop == drop_policy::late)
    y.until = last;
  y.soonest = soonest;
  if (through) {
    y.rows = through->rows;
    begin_journey(mine, std::move(*through), {last});
  }
  if (routers_.try_emplace(from->id(), from).second)
    self_->monitor(caf::actor_cast<caf::actor>(from));
  running_.emplace(id, std::move(mine));
  self_->send(options_.executor, std::move(y));
}

void replica_state::on_report(execution_report& message) {
  auto i = running_.find(message.id);
  if (i == running_.end())
    return;
  if (i->second.trace != 0 && options_.spans->on())
    options_.spans->add("replica/", options_.what.replica, "has",
                        i->second.arrived, self_->clock().now(), 0,
                        i->second.trace);
  busy_ += message.run();
  ++batches_;
  auto& through = i->second.through;
  if (message.ok()) {
    auto held = through && !through->way.visits.empty()
                  ? through->way.visits.back().held
                  : 0us; // the stage before held the output until then
    waits_.add(held + message.queue);
    runs_.add(message.run());
  }
  requests_ += requests_of(i->second, message);
  auto ran = message.ok();
  if (i->second.dropped)
    cancel(i);
  else if (through && ran && !is_last_stage())
    hold(i, message);
  else
    answer(i, message);
  if (first_answer_ < 0us && ran && !is_ending()) {
    first_answer_ = to_us(self_->clock().now() - ready_at_);
    report_condition();
  }
}

/// The number of requests of a batch.
size_t replica_state::requests_of(const batch& begun,
                                  const execution_report& result) {
  return begun.through ? begun.through->way.rows.size()
         : result.ok() ? result.outputs->size()
                       : 0;
}

/// Replaces outputs that are too large for one message to another node by an
/// error. Returns their size relative to the limit; 0: they fit.
double replica_state::refuse_too_large(const caf::strong_actor_ptr& receiver,
                                       size_t requests,
                                       execution_report& result) const {
  // The outputs did not fit the arena of a sandboxed process.
  if (!result.ok() && result.outputs.failure().code == ec::too_large)
    return static_cast<double>(confined::largest_arena)
           / (wire_limits::batch_share * wire_limits::message_bytes);
  if (!result.ok() || as_proxy(receiver) == nullptr)
    return 0;
  batch_extent all;
  for (auto& outputs : *result.outputs)
    all.add({bytes_of(outputs), outputs.size()});
  auto most = requests > 1 ? wire_limits::batch_share : 1.;
  auto share = all.share_of_message() / most;
  if (share <= 1)
    return 0;
  auto limit = [&](size_t x) { return static_cast<double>(x) * most; };
  result.outputs = error{
    ec::too_large,
    "the results of replica " + options_.what.replica + " for "
      + std::to_string(requests) + " request(s), " + std::to_string(all.tensors)
      + " tensor(s) of " + format_bytes(all.bytes)
      + " together, do not fit into one message between nodes (at most "
      + format_bytes(static_cast<uint64_t>(limit(wire_limits::message_bytes)))
      + ", " + format_number(limit(wire_limits::attachments)) + " tensors)"};
  return share;
}

/// Answers the router and ends the batch.
void replica_state::answer(batch_map::iterator entry, execution_report& result,
                           double share) {
  batch_done y;
  auto& through = entry->second.through;
  y.share_of_message =
    share > 0 ? share
              : refuse_too_large(entry->second.from,
                                 requests_of(entry->second, result), result);
  y.id = entry->second.id;
  if (result.ok()) {
    y.status = ec::ok;
    y.outputs = std::move(*result.outputs);
  } else {
    y.status = result.outputs.failure().code;
    y.text = std::move(result.outputs.failure().text);
  }
  y.queue = result.queue;
  y.execute = result.run();
  y.interference = result.interference;
  y.credit = life_ == replica_life::lost ? 0 : 1;
  if (through)
    y.visits = std::move(through->way.visits);
  self_->send(caf::actor_cast<router_actor>(entry->second.from), std::move(y));
  end(entry);
}

replica_load replica_state::on_get_load() const {
  return {options_.what.replica,
          busy_,
          batches_,
          requests_,
          running_.size(),
          gaps_,
          waits_,
          runs_,
          sends_};
}

replica_actor::behavior_type
replica(replica_actor::stateful_pointer<replica_state> self,
        replica_options options, bus* net) {
  auto& s = self->state;
  s.start(self, std::move(options), net);
  return {
    [&s](run_batch& x) { s.on_run(x); },
    [&s](forward_batch& x) { s.on_forward_batch(x); },
    [&s](const batch_accepted& x) { s.on_batch_accepted(x); },
    [&s](const drop_batch& x) { s.on_drop(x); },
    [&s](execution_report& x) { s.on_report(x); },
    [&s](const stage_lost& x) { s.on_lost(x); },
    [&s](const peer_up& x) { s.on_peer_up(x); },
    [](const peer_down&) { /* the gateway's proxy goes down itself */ },
    [&s](get_load) { return s.on_get_load(); },
    [&s](const adjust& x) { s.on_adjust(x); },
    [&s](const share_device& x) { s.on_share(x); },
    [&s](finish_elsewhere) { s.on_finish_elsewhere(); },
    [&s](const router_released& x) { s.on_router_released(x); },
    [&s](finish) { s.on_finish(); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
