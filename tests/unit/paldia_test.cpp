// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/one_model.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

profile_point point_of(const std::string& device, double rows, double seconds,
                       std::map<std::string, double> dimensions = {}) {
  profile_point out;
  out.device = device;
  out.batch = rows;
  out.dimensions = std::move(dimensions);
  out.metrics["execute_seconds"] = seconds;
  return out;
}

/// A v100, an m60 that takes 3 times as long and costs a quarter, and a cpu. A
/// batch of 100 takes 50 ms on the v100; k batches at once take max(1, 0.25 k)
/// times as long.
struct three_kinds : one_model {
  explicit three_kinds(option_texts options = {})
    : one_model("paldia", with_prices(std::move(options))) {
    settings.slo = 200ms;
    settings.policy.batch = 100;
    node_state node;
    profile known;
    known.model = "m";
    struct kind {
      const char* name;
      double times;
    };
    for (auto& x : {kind{"v100", 1}, kind{"m60", 3}, kind{"cpu", 60}}) {
      device_info device;
      device.id = device.kind = x.name;
      device.lanes = 16;
      node.devices.push_back(device);
      for (auto rows : {1., 100.}) {
        auto solo = x.times * 0.0005 * rows;
        known.points.push_back(point_of(x.name, rows, solo));
        if (x.times < 60)
          for (auto k : {2., 4., 16.})
            known.points.push_back(point_of(
              x.name, rows, solo * std::max(1., 0.25 * k), {{"at_once", k}}));
      }
    }
    snapshot.nodes["w"] = std::make_shared<const node_state>(node);
    cost_book book{1, {}, {}};
    book.profiles["m"] =
      std::make_shared<const model_profiles>(model_profiles{{known}});
    snapshot.costs = std::make_shared<const cost_book>(book);
  }

  static option_texts with_prices(option_texts x) {
    x.try_emplace("prices", "v100 3; cpu 0.2; m60 0.75");
    return x;
  }

  std::string kind_at(double rate) {
    set_rate(rate);
    last = ask();
    now += 1s;
    REQUIRE(last.groups.size() == 1);
    return last.groups[0].device;
  }

  device_sharing sharing_of(const std::string& kind) const {
    for (auto& x : last.devices)
      if (x.device == kind)
        return x.sharing;
    FAIL("no plan for " << kind);
    return {};
  }

  proposal last;
};

} // namespace

TEST_CASE(
  "PA-23, PA-59: escalation takes the cheapest kind that meets the SLO") {
  three_kinds x{{{"wait", "0"}}};
  CHECK(x.kind_at(5) == "cpu");     // 150 ms per row without contention: 5 rows
  CHECK(x.kind_at(100) == "m60");   // 150 ms
  CHECK(x.kind_at(1200) == "v100"); // 12 batches, 3 times 50 ms
  CHECK(x.kind_at(6) == "cpu");
}

TEST_CASE("PA-25, PA-59: the slack rule takes the cheapest kind within slack "
          "of the fastest") {
  three_kinds x{{{"wait", "0"}, {"choose", "slack"}, {"slack", "20ms"}}};
  CHECK(x.kind_at(100) == "v100"); // 50 ms against 150 ms
  three_kinds y{{{"wait", "0"}, {"choose", "slack"}, {"slack", "110ms"}}};
  CHECK(y.kind_at(100) == "m60");
}

TEST_CASE("PA-27, PA-28: the kind changes after `wait` mismatches in a row and "
          "a match resets the counter") {
  three_kinds x; // the default of `wait` is 3
  CHECK(x.kind_at(100) == "m60");
  for (int round = 0; round < 2; ++round) {
    CHECK(x.kind_at(1200) == "m60");
    CHECK(x.kind_at(1200) == "m60");
    CHECK(x.kind_at(100) == "m60"); // resets
  }
  for (int i = 0; i < 3; ++i)
    CHECK(x.kind_at(1200) == "m60");
  CHECK(x.kind_at(1200) == "v100");
}

TEST_CASE("PA-29: if no kind meets the SLO the fastest is taken with a split") {
  three_kinds x{{{"wait", "0"}}};
  CHECK(x.kind_at(3000) == "v100");
  CHECK(x.last.reasons.at("m").find("more than the SLO") != std::string::npos);
  // 16 batches at once take 200 ms, so no waiting request would be on time.
  CHECK(x.sharing_of("v100").at_once == 16);
}

TEST_CASE("PA-30: the split of the chosen kind becomes the sharing of its"
          " devices") {
  struct {
    const char* sharing;
    sharing_mode mode;
    uint32_t at_once;
  } const table[]{{"time", sharing_mode::time, 0},
                  {"space", sharing_mode::space, 0},
                  {"wave", sharing_mode::wave, 12},
                  {"cap", sharing_mode::cap, 4}};
  for (auto& row : table) {
    CAPTURE(row.sharing);
    three_kinds x{{{"sharing", row.sharing}, {"reserve", "0"}}};
    x.kind_at(1200);
    CHECK(x.sharing_of("v100").mode == row.mode);
    CHECK(x.sharing_of("v100").at_once == row.at_once);
  }
}

TEST_CASE("PA-62: a change of kind keeps the group so that replicas move") {
  three_kinds x{{{"wait", "0"}}};
  x.kind_at(100);
  auto before = x.last.groups[0].id;
  CHECK(x.kind_at(1200) == "v100");
  CHECK(x.last.groups[0].id == before);
}

TEST_CASE("PA-24: a CPU runs one batch after the other") {
  three_kinds x{{{"wait", "0"}}};
  x.kind_at(6); // 180 ms
  CHECK(x.sharing_of("cpu").at_once == 1);
}

TEST_CASE("paldia: invalid prices are refused by name") {
  for (auto* prices :
       {"", "m60", "3", "m60 x", "m60 -1", "m60 1;; v100 2", "m60 1; m60 2"}) {
    auto made = make_scaling_policy(
      "model/m", {"paldia", {{"prices", prices}}, 1s, {}, {}});
    REQUIRE(!made);
    CHECK(made.failure().text.find("prices: expected") != std::string::npos);
  }
}
