// SPDX-License-Identifier: Apache-2.0
#include "simulator/machines.hpp"

#include <algorithm>
#include <utility>

#include "simulator/node.hpp"

namespace millrace::simulator {

namespace {

/// Poll interval for the end of a node that drains.
constexpr microseconds look_pause = 20ms;

/// Time to wait after the drain timeout of a node.
constexpr microseconds leave_grace = 10s;

constexpr double hour = 3600;

} // namespace

/// The machine source of one process: answers go to that process only.
class yard_source : public machine_source {
public:
  yard_source(machine_yard& yard, virtual_process& process)
    : yard_(yard),
      process_(process) {}

  void request(const std::string& machine, uint64_t lease,
               answer done) override {
    deliver(process_, done, yard_.request(machine, lease));
  }

  void release(const std::string& machine, uint64_t lease,
               answer done) override {
    // The source may be destroyed when the machine has ended.
    yard_.release(machine, lease,
                  [&process = process_, done](const sourced_machine& x) {
                    deliver(process, done, x);
                  });
  }

  void list(std::function<void(std::vector<sourced_machine>)> done) override {
    std::vector<sourced_machine> all;
    for (auto& [name, x] : yard_.machines_)
      if (x.lease.lease > 0)
        all.push_back(x.lease);
    deliver(process_, done, std::move(all));
  }

private:
  /// Delivers an answer, unless the process has ended.
  template <class F, class T>
  static void deliver(virtual_process& to, const F& done, T x) {
    to.world().soon(to, [done, x = std::move(x)] { done(x); });
  }

  machine_yard& yard_;
  virtual_process& process_;
};

void machine_yard::add(node& host) {
  if (auto* pool = config_.pool_of(host.name())) {
    auto& m = machines_[host.name()];
    m.where = &host;
    m.lease.machine = host.name();
    m.boot = pool->settings.boot;
  }
}

std::shared_ptr<machine_source>
machine_yard::source_for(virtual_process& process) {
  return std::make_shared<yard_source>(*this, process);
}

microseconds machine_yard::wall_time() const {
  return to_us(world_.now().time_since_epoch());
}

void machine_yard::tell(const std::string& name, std::string_view what) {
  seen_by_.on_machine(name, what, world_.now());
}

const sourced_machine& machine_yard::request(const std::string& name,
                                             uint64_t lease) {
  auto& m = machines_.at(name);
  if (lease <= m.lease.lease || m.lease.open())
    return m.lease;
  m.lease.lease = lease;
  m.lease.since = wall_time();
  m.lease.until = microseconds{-1};
  m.booted = m.down = m.leaving = false;
  tell(name, "requested");
  world_.at(world_.now() + m.boot, [this, name, lease] { boot(name, lease); });
  return m.lease;
}

void machine_yard::boot(const std::string& name, uint64_t lease) {
  auto& m = machines_.at(name);
  if (m.lease.lease != lease || !m.lease.open() || m.leaving)
    return;
  m.booted = true;
  if (!m.down)
    m.where->start();
}

void machine_yard::kill(const std::string& name) {
  auto& m = machines_.at(name);
  m.down = true;
  if (m.lease.open() && !m.where->running())
    tell(name, "killed");
  m.where->kill();
}

void machine_yard::start(const std::string& name) {
  auto& m = machines_.at(name);
  m.down = false;
  if (m.lease.open() && m.booted && !m.leaving)
    m.where->start();
}

void machine_yard::release(const std::string& name, uint64_t lease,
                           machine_source::answer done) {
  auto& m = machines_.at(name);
  if (m.lease.lease != lease || !m.lease.open())
    return done(m.lease);
  m.ended.push_back(std::move(done));
  if (std::exchange(m.leaving, true))
    return;
  tell(name, "draining");
  m.leave_by =
    world_.now() + config_.nodes.at(name).drain_timeout + leave_grace;
  m.where->drain();
  await_end(name);
}

void machine_yard::await_end(const std::string& name) {
  auto& m = machines_.at(name);
  if (m.where->running() && world_.now() < m.leave_by) {
    world_.at(world_.now() + look_pause, [this, name] { await_end(name); });
    return;
  }
  m.where->kill(); // so that the node does not restart
  m.lease.until = wall_time();
  tell(name, "released");
  for (auto& done : std::exchange(m.ended, {}))
    done(m.lease);
}

// -- use ----------------------------------------------------------------------

namespace {

std::string name_of_instance(const device_name& where, instance_id x) {
  return where.device + "#" + std::to_string(x);
}

} // namespace

void use_meter::on_load_begun(const device_name& where,
                              const load_request& request, timestamp when) {
  auto& held = held_[where.node];
  auto first = held.empty();
  held.insert(name_of_instance(where, request.instance));
  if (first)
    to_.on_machine(where.node, "in_use", when);
}

void use_meter::on_loaded(const device_name& where, const load_request& request,
                          timestamp, const result<load_report>& how,
                          timestamp when) {
  if (!how)
    gone(where.node, name_of_instance(where, request.instance), when);
}

void use_meter::on_unloaded(const device_name& where, instance_id instance,
                            timestamp when) {
  gone(where.node, name_of_instance(where, instance), when);
}

void use_meter::gone(const std::string& node, const std::string& instance,
                     timestamp when) {
  auto& held = held_[node];
  if (held.erase(instance) > 0 && held.empty())
    to_.on_machine(node, "idle", when);
}

void use_meter::on_node(const std::string& node, std::string_view what,
                        timestamp when) {
  if (what == "paused" || what == "resumed" || what == "started")
    return;
  auto held = std::exchange(held_[node], {});
  if (!held.empty())
    to_.on_machine(node, "idle", when);
}

// -- bills --------------------------------------------------------------------

void lease_book::note(const std::string& machine, std::string_view what,
                      timestamp when) {
  auto at = to_us(when - begin_);
  auto i = open_.find(machine);
  if (what == "requested" || (what == "started" && i == open_.end())) {
    i = open_.insert_or_assign(machine, leases_.size()).first;
    leases_.push_back({machine, at, {}, {}, {}, {}, {}});
  }
  if (i == open_.end())
    return;
  auto& x = leases_[i->second];
  if (what == "started" && !x.started)
    x.started = at;
  else if (what == "ready" && !x.ready)
    x.ready = at;
  else if (what == "draining")
    x.draining = at;
  else if (what == "in_use")
    x.used.emplace_back(at, std::nullopt);
  else if (what == "idle" && !x.used.empty())
    x.used.back().second = at;
  if (what == "released") {
    x.released = at;
    open_.erase(i);
  }
}

std::pair<microseconds, microseconds> billed(const machine_lease& lease,
                                             microseconds length) {
  auto within = [&](microseconds from, std::optional<microseconds> to) {
    auto begin = std::clamp(from, 0us, length);
    return std::max(0us, std::clamp(to.value_or(length), 0us, length) - begin);
  };
  auto used = 0us;
  for (auto& [from, to] : lease.used)
    used += within(from, to ? to : lease.released);
  return {within(lease.requested, lease.released), used};
}

std::string pool_of(const loaded_scenario& what, const std::string& node) {
  for (auto& [name, pool] : what.cluster.pools)
    if (std::count(pool.machines.begin(), pool.machines.end(), node) != 0)
      return name;
  return {};
}

std::vector<pool_bill> bills_of(const loaded_scenario& what,
                                const std::vector<machine_lease>& leases,
                                microseconds length) {
  std::map<std::string, pool_bill> by_pool;
  for (auto& x : leases) {
    auto [reserved, used] = billed(x, length);
    if (x.requested >= length || reserved == 0us)
      continue;
    auto pool = pool_of(what, x.machine);
    auto& bill = by_pool[pool];
    bill.pool = pool;
    ++bill.machines;
    auto its = what.price.find(x.machine);
    auto price = its == what.price.end() ? 0 : its->second;
    bill.hours_reserved += to_seconds(reserved) / hour;
    bill.hours_used += to_seconds(used) / hour;
    bill.cost_reserved += to_seconds(reserved) / hour * price;
    bill.cost_used += to_seconds(used) / hour * price;
  }
  std::vector<pool_bill> out;
  for (auto& [pool, bill] : by_pool)
    out.push_back(bill);
  return out;
}

} // namespace millrace::simulator
