// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "runtime/text.hpp"
#include "simulator/explore.hpp"
#include "simulator/log_line.hpp"
#include "simulator/machines.hpp"
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::simulator;
using namespace millrace::test;

namespace {

/// config/scenarios/machines.yaml with options replaced.
loaded_scenario machines_with(const std::vector<std::string>& changes = {}) {
  return example("machines.yaml", changes);
}

/// The leases of the pool.
std::vector<machine_lease> leases_of(const loaded_scenario& what,
                                     const record& x) {
  std::vector<machine_lease> out;
  for (auto& y : x.leases)
    if (!pool_of(what, y.machine).empty())
      out.push_back(y);
  return out;
}

/// Maximum number of unreleased machines at one time.
size_t most_at_once(const std::vector<machine_lease>& leases) {
  size_t out = 0;
  for (auto& x : leases)
    out =
      std::max(out, static_cast<size_t>(
                      std::count_if(leases.begin(), leases.end(), [&](auto& y) {
                        return y.requested <= x.requested
                               && (!y.released || *y.released > x.requested);
                      })));
  return out;
}

void check_all_answered(const record& x) {
  size_t failed = 0;
  for (auto& r : x.requests)
    failed += r.status != ec::ok;
  CHECK(failed == 0);
}

const pool_bill& bill_of(const run_summary& x, const std::string& pool) {
  auto i = std::find_if(x.pools.begin(), x.pools.end(),
                        [&](auto& y) { return y.pool == pool; });
  REQUIRE(i != x.pools.end());
  return *i;
}

const std::string kill_machine = "faults=[{kind: kill, nodes: [extra], at: ";

} // namespace

TEST_CASE("provider: a surge requests machines in the background and all its"
          " requests are answered") {
  for (auto* boot : {"0s", "4s", "30s"}) {
    CAPTURE(boot);
    auto what = machines_with({"pools.burst.boot=" + std::string{boot},
                               "models[0].policy.deadline=60s",
                               "models[0].policy.queue=10000"});
    auto x = run_of(what);
    check_all_answered(x);
    auto leases = leases_of(what, x);
    REQUIRE(leases.size() >= 2);
    auto waits = what.cluster.pools.at("burst").settings.boot;
    size_t ready = 0;
    for (auto& y : leases)
      if (y.started) {
        CHECK(*y.started - y.requested == waits);
        ready += y.ready.has_value();
      }
    // A surge of 8 s ends before a machine with a boot of 30 s is ready.
    if (waits < 8s)
      CHECK(ready >= 2);
    else
      CHECK(ready == 0);
  }
}

TEST_CASE("provider: a machine unused for the idle time is released and none"
          " remains after the surge") {
  auto what = machines_with();
  auto x = run_of(what);
  auto leases = leases_of(what, x);
  CHECK(leases.size() >= 4); // two surges
  for (auto& y : leases) {
    CAPTURE(y.machine);
    REQUIRE(y.released);
    REQUIRE(y.draining);
    CHECK(*y.draining - y.requested >= 5s);
    CHECK(*y.released >= *y.draining);
  }
  check_all_answered(x);
}

TEST_CASE("provider: the boot of a machine is billed and time without a replica"
          " is not billed as used") {
  auto what = machines_with();
  auto x = run_of(what);
  for (auto& y : leases_of(what, x)) {
    auto [reserved, used] = billed(y, x.length);
    CHECK(reserved == *y.released - y.requested);
    CHECK(reserved - used >= 4s); // boot time
  }
  auto all = summarise(what, 1, x);
  auto& bill = bill_of(all, "burst");
  CHECK(bill.cost_reserved == doctest::Approx(bill.hours_reserved * 3.6));
  CHECK(bill.cost_used == doctest::Approx(bill.hours_used * 3.6));
  CHECK(bill.cost_used < bill.cost_reserved);
  CHECK(
    all.cost
    == doctest::Approx(bill.cost_reserved + bill_of(all, "").cost_reserved));
  // A host outside pools is billed for the whole run.
  CHECK(bill_of(all, "").cost_reserved == doctest::Approx(1.2 / 60));
}

TEST_CASE("provider: a host outside pools that was killed is billed to the end"
          " of the run") {
  auto what = machines_with({"faults=[{kind: kill, nodes: [base], at: 20s}]"});
  auto x = summarise(what, 1, run_of(what));
  CHECK(bill_of(x, "").cost_reserved == doctest::Approx(1.2 / 60));
  CHECK(bill_of(x, "").cost_used < 0.5 * 1.2 / 60);
}

TEST_CASE("provider: a machine killed during its boot is billed until it is"
          " given up and then replaced") {
  // The request is at about 3 s, so the boot ends after 7 s.
  auto what = machines_with({kill_machine + "5500ms}]"});
  auto x = run_of(what);
  check_all_answered(x);
  auto leases = leases_of(what, x);
  size_t never_started = 0, started = 0;
  for (auto& y : leases)
    if (!y.started && y.requested < 5500ms) {
      ++never_started;
      REQUIRE(y.released);
      // boot time and timeout
      CHECK(*y.released - y.requested >= 7s);
      CHECK(*y.released - y.requested < 8s);
    } else {
      started += y.requested > 5500ms && y.requested < 20s && y.started;
    }
  CHECK(never_started >= 2);
  CHECK(started >= 1);
}

TEST_CASE("provider: a ready machine that is killed is billed until it is given"
          " up and then replaced") {
  auto what =
    machines_with({"workload[1].length=25s",
                   "faults=[{kind: kill, nodes: ['in-use:answer'], at: 15s},"
                   " {kind: kill, nodes: ['in-use:answer'], at: 15200ms}]"});
  auto x = run_of(what);
  check_all_answered(x);
  size_t lost = 0;
  for (auto& e : x.events)
    if (e.what.starts_with("provider.booting ")) {
      ++lost;
      auto machine = std::string{field_of(e.what, "machine")};
      auto lease = std::find_if(x.leases.begin(), x.leases.end(), [&](auto& y) {
        return y.machine == machine && y.requested < e.at
               && (!y.released || *y.released > e.at);
      });
      REQUIRE(lease != x.leases.end());
      REQUIRE(lease->released);
      CHECK(*lease->released - e.at >= 3s); // timeout
      CHECK(*lease->released - e.at < 4s);
      CHECK(billed(*lease, x.length).first
            == *lease->released - lease->requested);
    }
  CHECK(lost >= 1);
  auto leases = leases_of(what, x);
  CHECK(std::any_of(leases.begin(), leases.end(), [](auto& y) {
    return y.requested > 15s && y.requested < 20s;
  }));
}

TEST_CASE("provider: a machine that returns in time is not replaced") {
  auto what = machines_with(
    {"workload[1].length=25s",
     "faults=[{kind: kill, nodes: [extra], at: 15s, lasts: 1s}]"});
  auto x = run_of(what);
  for (auto& y : leases_of(what, x))
    if (y.requested < 15s) {
      REQUIRE(y.released);
      CHECK(*y.released > 25s);
    }
}

TEST_CASE("provider: a controller that fails while machines boot leaks no"
          " machine and requests none twice") {
  for (auto* at : {"3050ms", "3200ms", "3500ms", "4s", "5s", "7s"}) {
    CAPTURE(at);
    auto what = machines_with({"faults=[{kind: kill, nodes: [controller], at: "
                               + std::string{at} + ", lasts: 1s}]"});
    auto x = run_of(what);
    auto leases = leases_of(what, x);
    CHECK(leases.size() >= 2);
    CHECK(most_at_once(leases) <= 3);
    for (auto& y : leases)
      CHECK(y.released);
    check_all_answered(x);
  }
}

TEST_CASE("provider: a controller without its ledger adopts the machines that"
          " the source lists") {
  auto what = machines_with(
    {"faults=[{kind: wipe, nodes: [controller], at: 5s, lasts: 1s}]"});
  auto x = run_of(what);
  auto leases = leases_of(what, x);
  CHECK(most_at_once(leases) <= 3);
  for (auto& y : leases)
    CHECK(y.released);
  CHECK(std::any_of(x.events.begin(), x.events.end(), [](auto& e) {
    return e.what.starts_with("provider.adopted ");
  }));
}

TEST_CASE("provider: the number of machines never exceeds most") {
  for (auto most : {1, 2}) {
    auto what = machines_with({"pools.burst.most=" + std::to_string(most)});
    auto leases = leases_of(what, run_of(what));
    CHECK(most_at_once(leases) == static_cast<size_t>(most));
  }
}

TEST_CASE("provider: least machines run without load") {
  auto what = machines_with(
    {"pools.burst.least=2", "workload=[{model: answer, rate: 1}]"});
  auto x = run_of(what);
  auto leases = leases_of(what, x);
  REQUIRE(leases.size() == 2);
  for (auto& y : leases) {
    CHECK(y.ready);
    CHECK(!y.released);
    CHECK(billed(y, x.length).first == x.length);
  }
}

TEST_CASE("provider: the ledger of the controller equals the bill computed from"
          " the events") {
  auto what = machines_with();
  auto run = simulation::prepare(what, {});
  REQUIRE(run);
  recorder notes{(*run)->begin(), what.spec.length};
  (*run)->add(notes);
  (*run)->run();
  auto list =
    (*run)->ask<machine_list>("controller", "provider", get_machines{});
  REQUIRE(list);
  (*run)->finish();
  auto x = notes.take();
  std::map<std::string, microseconds> reserved;
  for (auto& y : leases_of(what, x))
    reserved[y.machine] += *y.released - y.requested;
  REQUIRE(list->machines.size() == reserved.size());
  for (auto& m : list->machines) {
    CHECK(m.reserved == reserved[m.machine]);
    CHECK(m.condition == machine_condition::released);
    CHECK(m.used > 0s);
    CHECK(m.used < m.reserved);
    CHECK(m.pool == "burst");
    CHECK(m.type == "extra");
    CHECK(m.price == 3.6);
  }
}

TEST_CASE("provider: explored seeds of machines.yaml have correct bills and no"
          " leaked machine") {
  auto what = machines_with();
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    auto x = explore_seed(what, seed, {});
    REQUIRE(x);
    for (auto& v : x->violations)
      FAIL_CHECK(seed << ": " << v.invariant << " " << v.what);
  }
}
