// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/virtual_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A model of twelve layers without a configured replica.
model_settings idle_model() {
  auto out = want(0);
  out.parts = 2;
  return out;
}

result<ack> measure_it(virtual_cluster& c, const std::string& device = "") {
  measure_model x;
  x.model = "m";
  x.device = device;
  return c.ask_actor<ack, profiler_actor>("./profiler", x, 20s);
}

struct known_costs {
  std::vector<profile> profiles;
  std::vector<live_cost> live;
};

known_costs known(virtual_cluster& c, const std::string& model = "m") {
  auto all = *c.ask_actor<profile_list, profiler_actor>("./profiler",
                                                        get_profiles{model});
  known_costs out{{}, all.live};
  for (auto& x : all.profiles)
    out.profiles.push_back(*unpack(x));
  return out;
}

result<ack> keep(virtual_cluster& c, const profile& x) {
  return c.ask_actor<ack, profiler_actor>("./profiler", keep_profile{pack(x)});
}

double metric_of(const profile& x, const char* name, double rows = 1,
                 const std::map<std::string, double>& of = {}) {
  auto found = curve_of(x, name, "emulated", of);
  REQUIRE_FALSE(found.empty());
  return found.at(rows);
}

plan_list plans_of(virtual_cluster& c, const std::string& version) {
  auto out = c.ask_actor<plan_list, profiler_actor>(
    "./profiler", get_plans{"m", version, "", 4, 100});
  REQUIRE(out);
  return *out;
}

} // namespace

TEST_CASE("FP-06: the load time and run times and memory of a model are"
          " measured on an idle device") {
  virtual_cluster c{1, idle_model(), ten_ms};
  CHECK(known(c).profiles.empty());
  REQUIRE(measure_it(c));
  auto all = known(c);
  REQUIRE(all.profiles.size() == 1);
  auto& x = all.profiles[0];
  CHECK(all.profiles[0].sources.at("emulated") == "w1/emu0");
  CHECK(metric_of(x, "execute_seconds") == doctest::Approx(0.010));
  CHECK(metric_of(x, "execute_seconds", 8) == doctest::Approx(0.017));
  CHECK(metric_of(x, "deadline_seconds") == doctest::Approx(0.020));
  CHECK(metric_of(x, "load_seconds") == doctest::Approx(0.050));
  CHECK(metric_of(x, "memory_bytes") == 1048576);
  CHECK(metric_of(x, "activation_bytes") > 0);
  CHECK(c.load_of("w1").devices.at(0).memory == 0); // memory is freed
}

TEST_CASE("FP-09: the profiler stores hosts with devices and links and plans"
          " use the slowest link") {
  auto cold = [](bandwidth link) {
    virtual_cluster c{2, idle_model(), ten_ms, {}, {link, 10us}};
    auto members = *c.ask_actor<member_list, supervisor_actor>("./supervisor",
                                                               get_members{});
    CHECK(members.peers.size() == 2);
    for (auto& x : members.peers) {
      CHECK(x.host == x.name);
      CHECK(static_cast<double>(x.network) == link.bytes_per_second);
    }
    auto status = *c.ask_actor<node_status, supervisor_actor>("w1/supervisor",
                                                              get_status{}, 1s);
    CHECK(status.devices.size() == 1);
    REQUIRE(measure_it(c));
    return plans_of(c, "").ranges.at(0).cold;
  };
  // 1 MB, or a part of the model, over links of 10 and 1 MB/s.
  CHECK(cold({1e6}) > 5 * cold({1e7}));
}

TEST_CASE("FP-07: each layer is measured separately") {
  virtual_cluster c{1, idle_model(), ten_ms};
  REQUIRE(measure_it(c));
  auto x = known(c).profiles.at(0);
  double parameters = 0;
  for (double i = 0; i < 12; ++i) {
    std::map<std::string, double> layer{{"layer", i}};
    CHECK(metric_of(x, "execute_seconds", 1, layer)
          == doctest::Approx(0.010 / 12));
    CHECK(metric_of(x, "attach_seconds", 1, layer)
          == doctest::Approx(0.050 / 12).epsilon(0.01));
    CHECK(metric_of(x, "output_bytes", 1, layer) > 0);
    parameters += metric_of(x, "parameter_bytes", 1, layer);
  }
  CHECK(parameters == 1048576);
  CHECK(metric_of(x, "part_attach_seconds")
        == doctest::Approx(0).epsilon(1e-5));
}

TEST_CASE("profiler: two measurements use different devices and a third is"
          " refused") {
  virtual_cluster c{2, idle_model(), ten_ms};
  auto said = c.ask_at_once<ack, profiler_actor>(
    "./profiler", std::vector<measure_model>(3, {"m", "", "", {1}, 1}), 20s);
  REQUIRE(said.size() == 3);
  CHECK(said[0]);
  CHECK(said[1]);
  CHECK_FALSE(said[2]);
}

TEST_CASE("profiler: a device with idle replicas is used for a measurement if"
          " no device is free") {
  auto wanted = idle_model();
  wanted.replicas = 2;
  virtual_cluster c{2, wanted, ten_ms};
  CHECK(measure_it(c));
  for (uint64_t id = 1; id <= 100; ++id)
    c.request(id);
  auto busy = measure_it(c);
  REQUIRE_FALSE(busy);
  CHECK(busy.failure().code == ec::unavailable);
  CHECK(busy.failure().text.find("'unload'") != std::string::npos);
  auto none = measure_it(c, "v100");
  REQUIRE_FALSE(none);
  CHECK(none.failure().text
        == "no device v100 is on a ready node that has the bundle");
}

TEST_CASE("profiler: a profile with other layers than the bundle gives no"
          " plans") {
  virtual_cluster c{1, idle_model(), ten_ms};
  profile x{.model = "m", .points = {}};
  for (double i = 0; i < 5; ++i)
    x.points.push_back(
      {"v100", 1, {{"layer", i}}, {{"execute_seconds", 0.001}}});
  REQUIRE(keep(c, x));
  auto plans = [&](const std::string& kind) {
    return c.ask_actor<plan_list, profiler_actor>(
      "./profiler", get_plans{"m", "", kind, 4, 100});
  };
  auto wrong = plans("");
  REQUIRE_FALSE(wrong);
  CHECK(wrong.failure().text
        == "the profile of m has 5 layers, and its bundle has 12");
  REQUIRE(measure_it(c));
  CHECK(plans("emulated"));
  CHECK_FALSE(plans("v100"));
  auto either = plans("");
  REQUIRE_FALSE(either);
  CHECK(either.failure().text
        == "the profile of m is for device kinds emulated, v100: expected one"
           " kind");
}

TEST_CASE("profiler: measurements survive a crash of the profiler") {
  virtual_cluster c{1, idle_model(), ten_ms};
  REQUIRE(measure_it(c));
  c.crash("./profiler");
  c.advance(3s);
  CHECK(known(c).profiles.size() == 1);
  REQUIRE(measure_it(c)); // replaces the wrong profile
  CHECK(known(c).profiles.size() == 1);
}

TEST_CASE("profiler: profiles of the most layers on eight device kinds survive"
          " a crash of the profiler") {
  virtual_cluster c{1, idle_model(), ten_ms};
  for (auto kind : {"a", "b", "c", "d", "e", "f", "g", "h"}) {
    profile x{"m", {}};
    for (double layer = 0; layer < max_profiled_layers; ++layer)
      for (double rows : {1, 2, 4, 8})
        x.points.push_back({kind,
                            rows,
                            {{"layer", layer}},
                            {{"execute_seconds", rows / 1000},
                             {"activation_bytes", 4096 * rows}}});
    x.sources[kind] = std::string{"somebody's "} + kind;
    REQUIRE(keep(c, x));
  }
  auto before = known(c).profiles.at(0);
  CHECK(before.sources.at("a") == "somebody's a");
  CHECK(before.sources.at("h") == "somebody's h");
  CHECK(before.points.size() == 8 * 4 * max_profiled_layers);
  c.crash("./profiler");
  c.advance(3s);
  auto after = known(c).profiles.at(0);
  CHECK(print_profiles({after}) == print_profiles({before}));
}

TEST_CASE("profiler: forgotten points of a model are removed for all layers and"
          " stay removed") {
  virtual_cluster c{1, idle_model(), ten_ms};
  auto forget = [&] {
    return c.ask_actor<ack, profiler_actor>("./profiler", forget_profiles{"m"});
  };
  CHECK(forget().failure().code == ec::unknown_model);
  REQUIRE(measure_it(c));
  auto keep_one = [&](const std::string& model) {
    profile x{model, {{"v100", 1, {}, {{"load_seconds", 1}}}}};
    return keep(c, x);
  };
  REQUIRE(keep_one("m"));
  REQUIRE(keep_one("n"));
  CHECK(known(c).profiles.size() == 2); // one of its layers, one of any layers
  REQUIRE(forget());
  CHECK(known(c).profiles.empty());
  CHECK_FALSE(c.ask_actor<plan_list, profiler_actor>(
    "./profiler", get_plans{"m", "", "", 4, 100}));
  c.crash("./profiler");
  c.advance(3s);
  auto rest = known(c, "");
  REQUIRE(rest.profiles.size() == 1);
  CHECK(rest.profiles[0].model == "n");
  CHECK(measure_it(c));
}

TEST_CASE("FP-08: run times of serving replicas are averaged and follow"
          " changes") {
  auto wanted = idle_model();
  wanted.replicas = 1;
  virtual_cluster c{2, wanted, ten_ms, {}, {{0}, 700us}};
  uint64_t id = 0;
  auto serve = [&](int64_t rows, microseconds length) {
    for (auto left = length; left > 0us; left -= 20ms) {
      c.request(++id, c.ask(rows));
      c.advance(20ms);
    }
  };
  // Run time of one part: half of 9 ms plus half of 1 ms per row.
  auto executes = [&](double seconds) {
    auto live = known(c).live;
    REQUIRE(live.size() == 2); // one figure per part
    for (auto& x : live) {
      CHECK(x.execute == doctest::Approx(seconds).epsilon(0.01));
      CHECK(x.batch == doctest::Approx(1));
      CHECK(x.load == doctest::Approx(0.025));
      CHECK(x.loads == 1);
    }
    CHECK(live[0].send == doctest::Approx(0.0014).epsilon(0.01)); // both ways
    CHECK(live[1].sends == 0);
    return live.at(0).executions;
  };
  serve(1, 20s);
  auto before = executes(0.005);
  CHECK(before > 1);
  serve(11, 5s); // one report has a weight of one fifth in the average
  CHECK(executes(0.8 * 0.005 + 0.2 * 0.010) == before + 1);
  serve(11, 100s);
  c.advance(10s);
  auto all = executes(0.010);
  c.advance(1min);
  c.crash("./profiler");
  c.advance(1s);
  CHECK(executes(0.010) == all); // the bundles were on disk
}

TEST_CASE("FP-08: the times to fetch a model are averaged") {
  auto wanted = want(2);
  wanted.model = "far";
  virtual_cluster c{2, wanted, ten_ms};
  auto live = known(c, "far").live;
  REQUIRE(live.size() == 1);
  // 1 MiB over a link of 1 MiB/s in a chain of two hosts.
  CHECK(live[0].fetch == doctest::Approx(1).epsilon(0.01));
  CHECK(live[0].loads == 2);
}

TEST_CASE("FP-18: versions with equal layers share plans until the profile of"
          " the layers changes") {
  virtual_cluster c{1, idle_model(), ten_ms};
  REQUIRE(measure_it(c));
  auto first = plans_of(c, "1");
  CHECK(first.number == 1);
  CHECK_FALSE(first.ranges.empty());
  CHECK(plans_of(c, "2").number == 1);
  auto x = known(c).profiles.at(0);
  for (auto& p : x.points)
    for (auto& [name, value] : p.metrics)
      value *= 2;
  REQUIRE(keep(c, x));
  auto second = plans_of(c, "2");
  CHECK(second.number == 2);
  CHECK(second.ranges.at(0).inference > first.ranges.at(0).inference);
}

TEST_CASE("FP-61: versions with different layers have separate queues and"
          " copies and plans") {
  auto wanted = idle_model();
  wanted.model = "grows";
  virtual_cluster c{4, wanted, {5s, 9ms, 1ms}};
  for (auto version : {"1", "2"})
    REQUIRE(c.ask_actor<ack, profiler_actor>(
      "./profiler", measure_model{"grows", version, {}}, 100s));
  auto plans = [&](const std::string& version) {
    auto out = c.ask_actor<plan_list, profiler_actor>(
      "./profiler", get_plans{"grows", version, "", 4, 100});
    REQUIRE(out);
    return out->number;
  };
  CHECK(plans("1") == 1);
  CHECK(plans("2") == 2); // FP-18: layers of version 2 changed
  CHECK(plans("1") == 1);
  auto rows = known(c, "grows");
  REQUIRE(rows.profiles.size() == 2);
  CHECK(rows.profiles[0].layers != rows.profiles[1].layers);
  auto serve = [&](const std::string& version, std::vector<uint64_t> cuts) {
    wanted.replicas = 1;
    wanted.version = version;
    wanted.cuts = std::move(cuts);
    REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                             set_model{wanted, false, {}}));
  };
  serve("1", {6});
  c.advance(5s);
  serve("2", {1}); // its first part is ready long before the other
  c.advance(2s);
  auto queue = [&](const std::string& version) {
    return *c.ask_actor<queue_status, router_actor>("./router/grows." + version,
                                                    get_queue{});
  };
  auto old = queue("1"), fresh = queue("2");
  CHECK(old.layers == 12);
  CHECK(old.replicas.size() == 2);
  CHECK(fresh.layers == 13);
  CHECK(fresh.replicas.size() == 1);
  for (uint64_t id = 1; id <= 10; ++id)
    c.request(id, c.ask());
  c.drain();
  CHECK(queue("1").waiting + queue("1").running == 10);
  CHECK(queue("2").waiting + queue("2").running == 0);
  c.advance(9s);
  CHECK(c.answers() == counts{{ec::ok, 10}});
  CHECK(queue("2").replicas.size() == 2);
}

TEST_CASE("profiler: a profile with impossible measurements is refused") {
  virtual_cluster c{1, idle_model(), ten_ms};
  CHECK_FALSE(keep(c, {.model = "m", .points = {}}));
  CHECK_FALSE(keep(c, {"../m", {{"emulated", 1, {}, {{"load_seconds", 1}}}}}));
  CHECK_FALSE(keep(c, {"m", {{"emulated", 1, {}, {{"load_seconds", -1}}}}}));
  CHECK(keep(c, {"m", {{"emulated", 1, {}, {{"load_seconds", 1}}}}}));
  CHECK_FALSE(keep(c, {"m", {{"", 1, {}, {{"load_seconds", 1}}}}}));
  auto gap = keep(c, {"m",
                      {{"v100", 1, {{"layer", 0}}, {{"execute_seconds", 1}}},
                       {"v100", 1, {{"layer", 2}}, {{"execute_seconds", 1}}}}});
  CHECK(gap.failure().text
        == "the profile of 'm' has no execute_seconds of layer 1 on 'v100'");
  CHECK(known(c).profiles.size() == 1);
  // The limit also holds for the sum over all device kinds.
  auto many = [&](const std::string& kind) {
    profile_point one{kind, 1, {}, {{"load_seconds", 1}}};
    return keep(c, {.model = "m", .points = {10'000, one}});
  };
  REQUIRE(many("v100"));
  auto too_many = many("a10");
  REQUIRE_FALSE(too_many);
  CHECK(too_many.failure().text
        == "the profile of 'm' has 120006 numbers in all, expected at most"
           " 65536");
  CHECK(known(c).profiles.at(0).points.size() == 10'001);
}
