// SPDX-License-Identifier: Apache-2.0
#include "actors/provider/provider_state.hpp"

#include <algorithm>
#include <utility>

#include "actors/policies/state/cluster_view.hpp"
#include "runtime/log.hpp"
#include "runtime/text.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

using enum machine_condition;

constexpr auto machines_table = "machines";

/// Pause before a failed write is retried.
constexpr microseconds ledger_retry_pause = 1s;

std::string pack_row(const machine_row& x) {
  encoder out{timestamp{}, nullptr};
  out.put(x);
  return std::string{out.take_body().text()};
}

/// Whether as many replicas of a group as it wants are ready on other nodes.
/// Snapshots count no replica of a draining node.
bool is_replaced(const cluster_snapshot& in, const replica_status& x) {
  auto load = in.loads.find(x.what.model);
  if (load == in.loads.end())
    return true;
  auto& all = load->second->groups;
  return std::any_of(all.begin(), all.end(), [&](auto& g) {
    return g.group.id == x.what.group.id && g.layers == x.what.layers
           && g.ready >= g.group.count;
  });
}

} // namespace

void provider_state::start(
  provider_actor::stateful_pointer<provider_state> self,
  provider_options options) {
  self_ = self;
  options_ = std::move(options);
  for (auto& [name, x] : options_.pools) {
    pools_[name] = {x.what.settings, x.machines, std::nullopt};
    for (auto& machine : x.machines)
      pool_of_[machine] = name;
  }
  set_common_handlers(self);
  options_.facts->load(
    machines_table, [tell = teller<rows_read>(self)](auto rows) {
      tell({machines_table, std::make_shared<decltype(rows)>(std::move(rows))});
    });
  options_.source->list([tell = teller<machines_listed>(self)](auto all) {
    tell(
      {std::make_shared<const std::vector<sourced_machine>>(std::move(all))});
  });
}

microseconds provider_state::wall_time() const {
  return options_.wall_clock ? options_.wall_clock()
                             : to_us(self_->clock().now().time_since_epoch());
}

// -- ledger and source --------------------------------------------------------

void provider_state::on_rows(const rows_read& message) {
  if (!*message.rows) {
    self_->quit(to_caf(message.rows->failure()));
    return;
  }
  for (auto& stored : **message.rows) {
    decode_context ctx;
    auto row = decode<machine_row>(std::as_bytes(std::span{stored.value}), ctx);
    if (!row) {
      self_->quit(to_caf(
        std::move(row.failure()).within("ledger row '" + stored.key + "'")));
      return;
    }
    if (!pool_of_.contains(stored.key)) {
      log_event(log_level::warning, "provider", "unknown_machine",
                {{"machine", stored.key}, {"pool", row->pool}});
      continue;
    }
    auto& entry = machines_[stored.key];
    entry.row = std::move(*row);
    entry.version = stored.version;
  }
  loaded_ = true;
  adopt();
}

void provider_state::on_listed(const machines_listed& message) {
  for (auto& y : *message.machines)
    if (pool_of_.contains(y.machine))
      sourced_[y.machine] = y;
  listed_ = true;
  adopt();
}

/// Compares the ledger of an earlier controller with the list of the source.
void provider_state::adopt() {
  if (!loaded_ || !listed_)
    return;
  counted_at_ = wall_time();
  for (auto& [machine, is] : sourced_) {
    auto& x = machines_[machine];
    auto known = x.row.lease == is.lease && x.row.condition != released;
    if (known || (is.open() && is.lease > x.row.lease)) {
      log_event(log_level::info, "provider", "adopted",
                {{"machine", machine},
                 {"lease", is.lease},
                 {"condition", x.row.condition}});
      if (!known) { // the ledger was lost
        x.row = {};
        x.row.pool = pool_of_.at(machine);
        x.row.lease = is.lease;
        x.row.requested = is.since;
        change(machine, x, booting);
      } else {
        on_answered({is});
      }
    }
  }
  for (auto& [machine, x] : machines_)
    if (x.row.condition == requested && !x.writing)
      act(machine, x); // the source may not have the request
  tell_cluster_state();
  step();
}

void provider_state::on_observe(const observe_machines& message) {
  cluster_state_ = message.by;
  told_.clear();
  machines_changed all;
  for (auto& [name, pool] : options_.pools)
    all.pools[name] = std::make_shared<const pool_state>(pool.what);
  self_->send(cluster_state_, std::move(all));
  tell_cluster_state();
}

void provider_state::on_snapshot(const snapshot_taken& message) {
  count_use();
  snapshot_ = message.content;
  look(*snapshot_);
  step();
}

void provider_state::look(const cluster_snapshot& in) {
  for (auto& [machine, pool] : pool_of_) {
    auto node = in.nodes.find(machine);
    auto there = node != in.nodes.end();
    auto i = machines_.find(machine);
    if (i == machines_.end() && !there)
      continue;
    auto& x = machines_[machine];
    x.joined = there && !node->second->draining;
    x.replicas = there ? node->second->replicas.size() : 0;
    // The placement marks the node of a draining machine, and replaces its
    // replicas from then on.
    auto moved = [&](auto& r) { return !is_there(r) || is_replaced(in, r); };
    x.replaced = !there
                 || (node->second->draining
                     && std::all_of(node->second->replicas.begin(),
                                    node->second->replicas.end(), moved));
  }
}

/// Adds the time since the last snapshot to machines with replicas.
void provider_state::count_use() {
  if (!complete())
    return;
  auto now = wall_time();
  auto lasts = now - std::exchange(counted_at_, now);
  for (auto& [machine, x] : machines_)
    if (x.replicas > 0 && x.row.condition != released)
      x.row.used += lasts;
}

// -- proposals -----------------------------------------------------------

void provider_state::on_proposal(const proposal& message) {
  if (!complete())
    return; // the proposal may ignore the machines of the ledger
  for (auto& y : message.machines) {
    auto scope = snapshot_->scopes.find(message.scope);
    auto owns = scope != snapshot_->scopes.end()
                && scope->second->settings.pool == y.pool;
    auto pool = pools_.find(y.pool);
    if (!owns || pool == pools_.end()) {
      log_event(
        log_level::error, "provider", "proposal_refused",
        {{"scope", message.scope},
         {"pool", y.pool},
         {"reason", pool == pools_.end() ? "there is no such pool"
                                         : "the scope does not own the pool"}});
      continue;
    }
    pool->second.wanted = y.count;
  }
  step();
}

std::map<std::string, fleet_machine> provider_state::fleet() const {
  std::map<std::string, fleet_machine> out;
  for (auto& [machine, x] : machines_)
    out[machine] = {pool_of_.at(machine), x.row.condition,
                    x.row.since,          x.writing || x.again || x.leaving,
                    x.row.ready >= 0us,   x.joined,
                    x.replicas,           x.replaced};
  return out;
}

void provider_state::step() {
  if (!complete())
    return;
  for (auto& x : next_steps(pools_, fleet(), wall_time()))
    carry_out(x);
  arm();
}

void provider_state::carry_out(const fleet_step& step) {
  auto& machine = machines_[step.machine];
  log_event(log_level::info, "provider", to_string(step.to),
            {{"machine", step.machine}, {"reason", step.reason}});
  if (step.to == released) {
    machine.leaving = true;
    options_.source->release(
      step.machine, machine.row.lease,
      [tell = teller<machine_answered>(self_)](auto y) { tell({y}); });
    return;
  }
  if (step.to == requested) {
    auto known = sourced_.find(step.machine);
    auto last = known == sourced_.end() ? 0 : known->second.lease;
    machine_row fresh;
    fresh.pool = pool_of_.at(step.machine);
    fresh.lease = std::max(last, machine.row.lease) + 1;
    fresh.past_reserved = reserved(machine.row);
    fresh.past_used = machine.row.past_used + machine.row.used;
    machine.row = fresh;
  }
  if (step.to == ready && machine.row.ready < 0us)
    machine.row.ready = wall_time();
  change(step.machine, machine, step.to);
}

// -- the ledger ---------------------------------------------------------------

void provider_state::change(const std::string& machine, entry& known,
                            machine_condition to) {
  known.row.condition = to;
  known.row.since = wall_time();
  known.row.epoch = options_.epoch;
  write(machine, known);
}

void provider_state::write(const std::string& machine, entry& known) {
  known.writing = true;
  known.again = false;
  options_.facts->put(
    machines_table, machine, pack_row(known.row), known.version,
    [machine, tell = teller<machine_written>(self_)](auto version) {
      tell({machine, std::make_shared<decltype(version)>(std::move(version))});
    });
}

void provider_state::on_written(const machine_written& message) {
  auto& entry = machines_.at(message.machine);
  entry.writing = false;
  if (!*message.version) {
    log_event(log_level::error, "provider", "not_written",
              {{"machine", message.machine},
               {"error", to_string(message.version->failure())}});
    entry.again = true;
    self_->delayed_send(self_, ledger_retry_pause, tick::value);
    return;
  }
  entry.version = **message.version;
  tell_cluster_state();
  act(message.machine, entry);
  step();
}

/// Sends the source the request that follows from a stored condition.
void provider_state::act(const std::string& machine, entry& known) {
  if (known.row.condition == requested)
    options_.source->request(
      machine, known.row.lease,
      [tell = teller<machine_answered>(self_)](auto y) { tell({y}); });
}

void provider_state::on_answered(const machine_answered& message) {
  auto& is = message.machine;
  sourced_[is.machine] = is;
  auto& entry = machines_[is.machine];
  if (entry.row.condition == released)
    return;
  if (is.lease < entry.row.lease && entry.leaving)
    // The lease never began.
    return end_lease(is.machine, entry, entry.row.since);
  if (is.lease != entry.row.lease)
    return;
  entry.row.requested = is.since;
  if (!is.open())
    return end_lease(is.machine, entry, is.until);
  if (entry.row.condition == requested && !entry.writing)
    change(is.machine, entry, booting);
}

void provider_state::end_lease(const std::string& machine, entry& known,
                               microseconds until) {
  known.leaving = false;
  known.row.released = until;
  log_event(log_level::info, "provider", "left",
            {{"machine", machine}, {"lease", known.row.lease}});
  change(machine, known, released);
}

microseconds provider_state::reserved(const machine_row& row) const {
  auto out = row.past_reserved;
  if (row.requested >= 0us)
    out += (row.released >= 0us ? row.released : wall_time()) - row.requested;
  return out;
}

machine_list provider_state::on_get_machines() const {
  machine_list out;
  for (auto& [machine, x] : machines_) {
    if (x.row.lease == 0)
      continue;
    auto& pool = options_.pools.at(pool_of_.at(machine)).what;
    auto now = wall_time();
    auto used = x.row.past_used + x.row.used;
    if (x.replicas > 0 && x.row.condition != released)
      used += now - counted_at_;
    out.machines.push_back({machine, pool_of_.at(machine), pool.type,
                            x.row.condition, now - x.row.since, x.row.lease,
                            pool.settings.price, reserved(x.row), used});
  }
  return out;
}

void provider_state::tell_cluster_state() {
  if (!cluster_state_ || !loaded_ || !listed_)
    return;
  machines_changed some;
  for (auto& [machine, x] : machines_) {
    if (x.writing)
      continue; // sent after the write
    auto& last = told_[machine];
    machine_state is{pool_of_.at(machine), x.row.condition};
    if (last && *last == is)
      continue;
    last = std::make_shared<const machine_state>(std::move(is));
    some.machines[machine] = x.row.condition == released ? nullptr : last;
  }
  if (!some.machines.empty())
    self_->send(cluster_state_, std::move(some));
}

// -- time ---------------------------------------------------------------------

void provider_state::arm() {
  auto due = next_due(pools_, fleet());
  if (due < microseconds::max())
    alarm_.set(self_, self_->clock().now() + std::max(due - wall_time(), 1us));
}

void provider_state::on_tick() {
  alarm_.rings(self_->clock().now());
  for (auto& [machine, x] : machines_)
    if (x.again)
      write(machine, x);
  step();
}

provider_actor::behavior_type
provider(provider_actor::stateful_pointer<provider_state> self,
         provider_options options) {
  auto& s = self->state;
  s.start(self, std::move(options));
  return {
    [&s](const observe_machines& x) { s.on_observe(x); },
    [&s](const snapshot_taken& x) { s.on_snapshot(x); },
    [&s](const proposal& x) { s.on_proposal(x); },
    [&s](get_machines) { return s.on_get_machines(); },
    [&s](const rows_read& x) { s.on_rows(x); },
    [&s](const machine_written& x) { s.on_written(x); },
    [&s](const machines_listed& x) { s.on_listed(x); },
    [&s](const machine_answered& x) { s.on_answered(x); },
    [&s](tick) { s.on_tick(); },
  };
}

} // namespace millrace
