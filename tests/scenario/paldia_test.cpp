// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::simulator;
using namespace millrace::test;

namespace {

/// Percentage of the requests answered within 200 ms.
double within_slo(const std::string& sharing, const std::string& objective,
                  const std::string& law) {
  std::vector<std::string> changes{
    "scopes.model/googlenet.options.sharing=" + sharing,
    "scopes.model/googlenet.options.objective=" + objective,
    "bundles.googlenet.like=" + law};
  if (law.ends_with("128"))
    changes.push_back("models[0].policy.batch=128");
  auto x = run_example("paldia-exhaustion.yaml", changes);
  double within = 0;
  for (auto& r : x.requests)
    within += r.status == ec::ok && r.ended - r.sent <= 200ms;
  return 100 * within / static_cast<double>(x.requests.size());
}

} // namespace

TEST_CASE("PA-57: in exhaustion each sharing mode serves the throughput that"
          " the burst model predicts") {
  // Results of the Monte Carlo model of the design page: time, wave by
  // max_on_time, cap. Here the last batch of a burst is smaller and ends
  // earlier than in the model, so `space` serves more.
  struct {
    const char* law;
    double time, max_on_time, cap;
  } const table[]{{"googlenet-linear", 61.7, 97.4, 92.9},
                  {"googlenet-power-1.5", 61.7, 97.8, 100},
                  {"googlenet-square", 61.7, 99, 100},
                  {"googlenet-square-128", 54.8, 99, 100}};
  for (auto& row : table) {
    CAPTURE(row.law);
    CHECK(std::abs(within_slo("time", "max_on_time", row.law) - row.time) < 2);
    CHECK(std::abs(within_slo("cap", "max_on_time", row.law) - row.cap) < 2);
    auto off = std::string{row.law} == "googlenet-linear" ? 2 : 4;
    CHECK(std::abs(within_slo("wave", "max_on_time", row.law) - row.max_on_time)
          < off);
  }
}

TEST_CASE("PA-40, PA-41: the batches of each burst overlap as the split states"
          " and the rest runs one at a time") {
  // 700 requests: 7 batches of 96 take 195 ms. The other requests wait.
  auto x = run_example("paldia-exhaustion.yaml",
                       {"workload[0].arrivals=constant", "length=20s"});
  std::map<int64_t, std::vector<std::pair<microseconds, microseconds>>> bursts;
  for (auto& b : x.batches)
    if (b.started > 5s)
      bursts[b.started / 1s].push_back({b.started, b.ended});
  CHECK(bursts.size() >= 14);
  for (auto& [second, runs] : bursts) {
    std::sort(runs.begin(), runs.end());
    CHECK(runs.size() == 8);
    auto first_end = runs.front().second;
    for (auto& r : runs)
      first_end = std::min(first_end, r.second);
    size_t together = 0;
    for (auto& r : runs)
      together += r.first < first_end;
    CHECK(together == 7);
    for (size_t i = together + 1; i < runs.size(); ++i)
      CHECK(runs[i].first >= runs[i - 1].second);
  }
}

TEST_CASE("PA-31, PA-33, PA-61, PA-62: a switch to a faster machine runs in the"
          " background and loses no request at any boot time") {
  for (auto* boot : {"0s", "4s", "30s"}) {
    CAPTURE(boot);
    auto what =
      example("paldia-surge.yaml", {"pools.v100.boot=" + std::string{boot}});
    auto x = run_of(what);
    for (auto& r : x.requests)
      CHECK(r.status == ec::ok);
    // Both bills, computed only from the leases.
    double reserved = 0, fast = 0;
    for (auto& lease : x.leases)
      if (lease.machine.starts_with("fast")) {
        REQUIRE(lease.released);
        reserved += to_seconds(*lease.released - lease.requested) / 3600 * 3.06;
      }
    for (auto& r : x.batches)
      fast += x.names[r.device].starts_with("fast");
    CHECK((fast > 0) == (boot != std::string{"30s"}));
    auto all = summarise(what, 1, x);
    auto bill = std::find_if(all.pools.begin(), all.pools.end(),
                             [](auto& y) { return y.pool == "v100"; });
    REQUIRE(bill != all.pools.end());
    CHECK(bill->cost_reserved == doctest::Approx(reserved));
    CHECK(bill->cost_used < bill->cost_reserved);
  }
}
