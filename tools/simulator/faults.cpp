// SPDX-License-Identifier: Apache-2.0
#include "simulator/faults.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/log.hpp"
#include "runtime/units.hpp"

namespace millrace::simulator {

namespace {

constexpr microseconds short_while = 1s;

bool needs_an_end(fault_kind x) {
  return x == fault_kind::hang || x == fault_kind::wipe
         || x == fault_kind::device;
}

std::vector<std::string> workers(const loaded_scenario& what) {
  std::vector<std::string> out;
  for (auto& [name, node] : what.cluster.nodes)
    if (std::count(node.roles.begin(), node.roles.end(), node_role::worker)
        != 0)
      out.push_back(name);
  return out;
}

fault make_fault(const fault_spec& x, microseconds at, std::string node) {
  auto part = x.part.value_or(x.kind == fault_kind::loss ? 0.01 : 1);
  fault out{at,       x.kind, std::move(node), x.lasts, part,
            x.factor, x.by,   x.actor};
  if (out.lasts == 0us && needs_an_end(out.kind))
    out.lasts = short_while;
  return out;
}

void sort_by_time(std::vector<fault>& xs) {
  std::stable_sort(xs.begin(), xs.end(),
                   [](auto& a, auto& b) { return a.at < b.at; });
}

} // namespace

std::string to_string(const fault& event) {
  auto out = std::string{to_string(event.kind)} + " " + event.node + " at "
             + format_duration(event.at);
  if (event.lasts > 0us)
    out += " for " + format_duration(event.lasts);
  return out;
}

std::vector<fault> plan_faults(const loaded_scenario& what,
                               random_stream random) {
  std::vector<fault> out;
  for (size_t i = 0; i < what.spec.faults.size(); ++i) {
    auto& x = what.spec.faults[i];
    auto draw = random.fork("fault " + std::to_string(i));
    std::vector<std::string> where;
    for (auto& name : x.nodes)
      if (parse_place_in_use(name))
        where.push_back(name);
      else
        for (auto& node : nodes_of(what, name))
          where.push_back(node);
    if (x.nodes.empty())
      where = workers(what);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    if (where.empty())
      continue;
    auto first = out.size();
    if (x.at)
      for (auto& node : where)
        out.push_back(make_fault(x, *x.at, node));
    else if (x.each > 0us)
      for (auto at = x.each; at < what.spec.length; at += x.each)
        out.push_back(make_fault(x, at, where[draw.below(where.size())]));
    else
      for (auto at = x.every * draw.exponential();
           at < std::chrono::duration<double, std::micro>{what.spec.length};
           at += x.every * draw.exponential())
        out.push_back(make_fault(x,
                                 std::chrono::duration_cast<microseconds>(at),
                                 where[draw.below(where.size())]));
    for (auto k = first; k < out.size(); ++k)
      out[k].lot = draw.next();
  }
  sort_by_time(out);
  return out;
}

std::vector<fault> draw_storm(const loaded_scenario& what, const storm& how,
                              random_stream random) {
  std::vector<fault_kind> kinds;
  while (kinds.empty())
    for (size_t i = 0; i < names_of(fault_kind{}).size(); ++i)
      if (random.uniform() < 0.5)
        kinds.push_back(static_cast<fault_kind>(i));
  std::vector<std::string> nodes;
  for (auto& [name, node] : what.cluster.nodes)
    nodes.push_back(name);
  // Sometimes draws one kind of fault only, or one place only.
  if (random.below(4) == 0)
    kinds = {kinds[random.below(kinds.size())]};
  if (random.below(4) == 0)
    nodes = {nodes[random.below(nodes.size())]};
  auto able = workers(what);
  std::vector<fault> out;
  auto some_time = [&](microseconds longest) {
    // Log-uniform: short faults are as likely as long ones.
    auto x = std::exp(
      std::log(1e3)
      + random.uniform()
          * (std::log(static_cast<double>(longest.count())) - std::log(1e3)));
    return microseconds{static_cast<int64_t>(x)};
  };
  for (auto n = 1 + random.below(how.most); n > 0; --n) {
    fault x;
    x.kind = kinds[random.below(kinds.size())];
    auto& where = needs_devices(x.kind) && !able.empty() ? able : nodes;
    x.node = where[random.below(where.size())];
    x.at = how.begin
           + microseconds{static_cast<int64_t>(
             random.uniform() * static_cast<double>(how.length.count()))};
    x.lasts =
      std::min(some_time(how.length / 2), how.begin + how.length - x.at);
    x.part = random.uniform();
    if (x.kind == fault_kind::loss || x.kind == fault_kind::device
        || x.kind == fault_kind::process)
      x.part *= random.uniform();
    x.factor = 1 + 99 * random.uniform() * random.uniform();
    x.by = some_time(500ms);
    x.lot = random.next();
    out.push_back(x);
  }
  sort_by_time(out);
  return out;
}

// -- doing it -----------------------------------------------------------------

/// Empty when no running node has a ready replica of the model.
std::string fault_injector::node_of(const fault& event) const {
  auto in_use = parse_place_in_use(event.node);
  if (!in_use)
    return event.node;
  auto nodes = ready_.nodes_with(*in_use);
  std::erase_if(nodes,
                [&](auto& name) { return !cluster_.at(name).running(); });
  return nodes.empty() ? std::string{} : nodes[event.lot % nodes.size()];
}

void fault_injector::inject(const fault& planned) {
  auto x = planned;
  x.node = node_of(planned);
  if (x.node.empty())
    return log_event(log_level::info, "fault", "no_place",
                     {{"kind", x.kind}, {"node", planned.node}});
  auto& where = cluster_.at(x.node);
  log_event(log_level::info, "fault", to_string(x.kind),
            {{"node", x.node}, {"lasts_us", x.lasts.count()}});
  auto number = ++last_;
  on_.emplace(number, x);
  strike(x, where);
  adjust(x, where);
  if (x.lasts > 0us || x.kind == fault_kind::crash)
    cluster_.world().at(cluster_.world().now() + x.lasts,
                        [this, number] { end(number); });
}

/// The effect of a fault at its beginning.
void fault_injector::strike(const fault& event, node& where) {
  if (event.kind == fault_kind::kill || event.kind == fault_kind::wipe)
    cluster_.kill(event.node);
  if (event.kind == fault_kind::wipe)
    where.wipe();
  if (event.kind == fault_kind::hang)
    where.pause();
  if (event.kind == fault_kind::crash)
    where.crash(event.actor, event.lot);
  if (event.kind == fault_kind::partition || event.kind == fault_kind::one_way)
    cut_off(where, true, event.kind == fault_kind::partition);
}

void fault_injector::end(uint64_t number) {
  auto i = on_.find(number);
  if (i == on_.end())
    return; // healed before
  auto x = i->second;
  on_.erase(i);
  auto& where = cluster_.at(x.node);
  if (x.kind != fault_kind::crash)
    log_event(log_level::info, "fault", "over",
              {{"node", x.node}, {"kind", x.kind}});
  auto is_on = [&](std::initializer_list<fault_kind> kinds) {
    return std::any_of(on_.begin(), on_.end(), [&](auto& entry) {
      return entry.second.node == x.node
             && std::count(kinds.begin(), kinds.end(), entry.second.kind) != 0;
    });
  };
  if (x.kind == fault_kind::kill || x.kind == fault_kind::wipe)
    if (!is_on({fault_kind::kill, fault_kind::wipe}))
      cluster_.start(x.node);
  if (x.kind == fault_kind::hang && !is_on({fault_kind::hang}))
    where.resume();
  if (x.kind == fault_kind::partition || x.kind == fault_kind::one_way)
    join_again(where, true, x.kind == fault_kind::partition);
  adjust(x, where);
}

/// The worst value of a kind among a node's active faults.
template <class F>
double fault_injector::worst(const fault& like, double none, F of) const {
  auto out = none;
  for (auto& [number, x] : on_)
    if (x.kind == like.kind && x.node == like.node)
      out = std::max(out, of(x));
  return out;
}

/// Lasting effects: sets the worst values of all active faults.
void fault_injector::adjust(const fault& event, node& where) {
  auto& net = cluster_.network();
  auto part = [](const fault& y) { return y.part; };
  switch (event.kind) {
  case fault_kind::slow: {
    auto factor = worst(event, 1, [](auto& y) { return y.factor; });
    net.set_speed(where.host(), 1 / factor);
    return where.set_pace(factor);
  }
  case fault_kind::loss:
    return net.set_loss(where.host(), worst(event, 0, part));
  case fault_kind::delay:
    return net.set_delay(
      where.host(),
      microseconds{static_cast<int64_t>(worst(
        event, 0, [](auto& y) { return static_cast<double>(y.by.count()); }))});
  case fault_kind::device:
    where.faults().failing_executions = worst(event, 0, part);
    return;
  case fault_kind::process:
    where.faults().ending_executions = worst(event, 0, part);
    return;
  case fault_kind::gpu:
    return where.set_usable(worst(event, 0, [](auto&) { return 1.; }) == 0);
  case fault_kind::load:
    where.faults().failing_loads = worst(event, 0, part);
    return;
  case fault_kind::store:
    where.faults().failing_fetches = worst(event, 0, part);
    return;
  case fault_kind::disk:
    where.faults().failing_writes = worst(event, 0, part);
    return;
  default:
    return;
  }
}

/// Counts the cuts, because several faults may cut the same two hosts.
void fault_injector::cut_off(node& host, bool out, bool in) {
  auto cut = [this](host_number from, host_number to) {
    if (cuts_[{from, to}]++ == 0)
      cluster_.links().cut(from, to);
  };
  for (auto& [name, other] : cluster_.nodes()) {
    if (other.get() == &host)
      continue;
    if (out)
      cut(host.host(), other->host());
    if (in)
      cut(other->host(), host.host());
  }
}

void fault_injector::join_again(node& host, bool out, bool in) {
  auto mend = [this](host_number from, host_number to) {
    if (--cuts_[{from, to}] == 0)
      cluster_.links().mend(from, to);
  };
  for (auto& [name, other] : cluster_.nodes()) {
    if (other.get() == &host)
      continue;
    if (out)
      mend(host.host(), other->host());
    if (in)
      mend(other->host(), host.host());
  }
}

void fault_injector::heal() {
  while (!on_.empty())
    end(on_.begin()->first);
  for (auto& [name, x] : cluster_.nodes()) {
    x->resume();
    // A node that crashed too often stays failed until a person restarts it.
    if (x->running() && x->state().get().first == node_condition::failed)
      x->kill();
    cluster_.start(name);
  }
}

} // namespace millrace::simulator
