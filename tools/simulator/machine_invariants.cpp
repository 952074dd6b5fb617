// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>
#include <set>

#include "runtime/units.hpp"
#include "simulator/invariants.hpp"
#include "simulator/machines.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

/// Rounding error of costs: half a cent.
constexpr double cent_error = 0.005;

/// Tolerance for a running machine's time in a controller's ledger, since
/// answers take time.
constexpr microseconds answer_time = 1s;

/// I32: Costs follow from requests and releases alone; kills and boots do not
/// matter. No machine is requested twice, no pool has more than `most`
/// machines, and at the end the controller's ledger has the same machines and
/// times. Computed independently of the summary.
class bills : public invariant {
public:
  explicit bills(const expectations& x)
    : invariant("I32"),
      expect_(x),
      what_(*x.what),
      book_(x.begin) {}

  void on_machine(const std::string& machine, std::string_view what,
                  timestamp when) override {
    book_.note(machine, what, when);
    auto& x = events_[machine];
    if (what == "requested") {
      if (!x.requested.empty() && x.requested.size() > x.released.size())
        broken(when, machine + " is requested twice");
      x.requested.push_back(when);
      check_most(machine, when);
    } else if (what == "released") {
      x.released.push_back(when);
    } else if (what == "in_use") {
      x.in_use.push_back(when);
    } else if (what == "idle") {
      x.idle.push_back(when);
    }
  }

  void on_node(const std::string& node, std::string_view what,
               timestamp when) override {
    book_.note(node, what, when);
    if (what == "wiped")
      wiped_.insert(node);
    if (what == "started" && pool_of(what_, node).empty())
      first_start_.try_emplace(node, when);
  }

  void at_end(simulation& run) override {
    auto now = run.inside().world().now();
    check_summary(now);
    for (auto& [name, config] : what_.cluster.nodes) {
      auto& roles = config.roles;
      if (std::count(roles.begin(), roles.end(), node_role::controller) == 0)
        continue;
      if (auto list = run.ask<machine_list>(name, "provider", get_machines{}))
        check_ledger(*list, run.inside().world().now(), wiped_.contains(name));
      else
        broken(now, name + " does not list its machines");
    }
  }

private:
  struct machine_events {
    std::vector<timestamp> requested, released, in_use, idle;
    bool open() const { return requested.size() > released.size(); }
  };

  void check_most(const std::string& machine, timestamp when) {
    auto pool = pool_of(what_, machine);
    size_t open = 0;
    for (auto& [name, x] : events_)
      open += x.open() && pool_of(what_, name) == pool;
    auto most = what_.cluster.pools.at(pool).settings.most;
    if (open > most)
      broken(when, "pool " + pool + " has " + std::to_string(open)
                     + " machines, of " + std::to_string(most));
  }

  /// The seconds of the intervals from `begins` to `ends`, within [from, to).
  static double seconds(const std::vector<timestamp>& begins,
                        const std::vector<timestamp>& ends, timestamp from,
                        timestamp to) {
    double out = 0;
    for (size_t i = 0; i < begins.size(); ++i) {
      auto begin = std::max(begins[i], from);
      auto end = std::min(i < ends.size() ? ends[i] : to, to);
      if (end > begin)
        out += to_seconds(to_us(end - begin));
    }
    return out;
  }

  double price_of(const std::string& machine) const {
    auto i = what_.price.find(machine);
    return i == what_.price.end() ? 0 : i->second / 3600;
  }

  void check_summary(timestamp now) {
    double reserved = 0, used = 0;
    for (auto& [name, when] : first_start_)
      reserved +=
        price_of(name)
        * to_seconds(to_us(expect_.end - std::max(when, expect_.begin)));
    for (auto& [name, x] : events_) {
      reserved +=
        price_of(name)
        * seconds(x.requested, x.released, expect_.begin, expect_.end);
      used +=
        price_of(name) * seconds(x.in_use, x.idle, expect_.begin, expect_.end);
    }
    double billed_reserved = 0, billed_used = 0;
    for (auto& x :
         bills_of(what_, book_.leases(), to_us(expect_.end - expect_.begin))) {
      billed_reserved += x.cost_reserved;
      billed_used += x.cost_used;
    }
    auto compare = [&](const char* bill, double is, double wanted) {
      if (std::abs(is - wanted) >= cent_error)
        broken(now, std::string{"the bill of time "} + bill + " is "
                      + format_number(is) + ", and by the events "
                      + format_number(wanted));
    };
    compare("reserved", billed_reserved, reserved);
    compare("used", billed_used, used);
  }

  /// Checks the ledger of a controller; after a lost ledger only for the
  /// machines that exist.
  void check_ledger(const machine_list& list, timestamp now, bool lost) {
    std::set<std::string> open;
    for (auto& m : list.machines) {
      if (m.condition == machine_condition::released)
        continue;
      open.insert(m.machine);
      if (!events_[m.machine].open())
        broken(now, m.machine + " is in the ledger as "
                      + std::string{to_string(m.condition)}
                      + " and was released");
    }
    double by_ledger = 0, by_events = 0;
    for (auto& [name, x] : events_) {
      if (x.open() && !open.contains(name))
        broken(now, name + " is not released, and the ledger does not have it");
      by_events +=
        price_of(name) * seconds(x.requested, x.released, timestamp{}, now);
    }
    double slack = cent_error;
    for (auto& m : list.machines) {
      by_ledger += m.cost_reserved();
      slack += m.price / 3600 * to_seconds(answer_time);
    }
    if (!lost && std::abs(by_ledger - by_events) > slack)
      broken(now, "the ledger has a bill of " + format_number(by_ledger)
                    + ", and by the events it is " + format_number(by_events));
  }

  expectations expect_;
  const loaded_scenario& what_;
  lease_book book_;
  std::map<std::string, machine_events> events_; ///< by machine
  std::map<std::string, timestamp> first_start_; ///< hosts outside pools
  std::set<std::string> wiped_;
};

} // namespace

void add_machine_invariants(const expectations& expected, invariant_list& out) {
  if (!expected.what->cluster.pools.empty())
    out.push_back(std::make_unique<bills>(expected));
}

} // namespace millrace::simulator
