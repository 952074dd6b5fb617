// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/policies/predict/variation.hpp"
#include "actors/policies/scale/quart_control.hpp"
#include "runtime/text.hpp"
#include "tests/support/one_model.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Stages of 20, 60 and 20 ms with one replica each, as in cluster state.
struct three_stages : one_model {
  explicit three_stages(option_texts options = {})
    : one_model("quart", std::move(options)) {
    settings.cuts = {4, 12};
    settings.slo = 400ms;
    for (auto& layers : {layer_range{0, 4}, {4, 12}, {12, 16}}) {
      auto run = layers.first == 4 ? 0.06 : 0.02;
      load.stages.push_back({layers, 1, 0, run, 0, 0, 100});
      group_state group;
      group.group.id = "model/m/m/" + std::to_string(layers.first) + "-"
                       + std::to_string(layers.last);
      group.layers = layers;
      group.ready = 1;
      load.groups.push_back(group);
    }
    load.arrival_cv = 1;
    set_rate(10);
  }

  std::vector<uint64_t> counts_now() {
    std::vector<uint64_t> out;
    last = ask();
    for (auto& g : last.groups)
      out.push_back(g.count);
    now += 1s;
    return out;
  }

  /// Makes replicas ready as proposed.
  void obey() {
    for (size_t i = 0; i < 3; ++i)
      load.groups[i].ready = last.groups[i].count;
  }

  std::vector<bool> keys() const {
    std::vector<bool> out;
    for (auto& s : last.stages.at("m"))
      out.push_back(s.key);
    return out;
  }

  proposal last;
};

using counts = std::vector<uint64_t>;

quart_stage stage_of(double service, double arrivals, uint64_t count) {
  quart_stage out;
  out.station.service = service;
  out.station.arrivals = arrivals;
  out.station.servers = out.count = out.ready = out.wanted = count;
  out.target = 4 * service;
  return out;
}

} // namespace

TEST_CASE("QU-11: each stage over its target is key and gets replicas and no "
          "other stage does") {
  for (size_t slow = 0; slow < 3; ++slow) {
    CAPTURE(slow);
    three_stages x{{{"sizing", "largest_error"}}};
    x.load.stages[slow].wait = 0.3;
    auto found = x.counts_now();
    for (size_t i = 0; i < 3; ++i) {
      CHECK((found[i] > 1) == (i == slow));
      CHECK(x.keys()[i] == (i == slow));
    }
  }
}

TEST_CASE(
  "QU-12: targets follow from the SLO by execution time or are set by stage") {
  three_stages x;
  x.counts_now();
  CHECK(x.last.stages.at("m")[0].target == doctest::Approx(0.08));
  CHECK(x.last.stages.at("m")[1].target == doctest::Approx(0.24));
  three_stages y{{{"targets", "1s,20ms,3ms"}}};
  y.counts_now();
  CHECK(y.last.stages.at("m")[1].target == doctest::Approx(0.02));
  CHECK(y.last.stages.at("m")[2].target == doctest::Approx(0.003));
  CHECK(!make_scaling_policy("model/m",
                             {"quart", {{"targets", "20ms,x"}}, 1s, {}, {}}));
}

TEST_CASE("QU-13: the step is the sum of the three terms of the PID") {
  pid_state state;
  const pid_gains gains{2, 0.5, 0.25};
  CHECK(pid_step(gains, state, 1, 0.5, false)
        == doctest::Approx(2 + 0.5 * 0.5 + 0.25 * 2));
  CHECK(state.integral == doctest::Approx(0.5));
  CHECK(pid_step(gains, state, 3, 1, false)
        == doctest::Approx(6 + 0.5 * 3.5 + 0.25 * 2));
  pid_step(gains, state, 5, 1000, false);
  CHECK(state.integral == 10);
}

TEST_CASE("QU-14: a stage over its target never loses replicas") {
  for (auto* sizing : {"joint", "largest_error"}) {
    three_stages x{{{"sizing", sizing}}};
    uint64_t before = 1;
    for (auto wait : {0.3, 0.29, 0.27, 0.25, 0.9, 0.2}) {
      x.load.stages[1].wait = wait;
      auto found = x.counts_now();
      CHECK(found[1] >= before);
      before = found[1];
      x.obey();
      x.now += 5s;
    }
  }
}

TEST_CASE("QU-15: the integral is frozen while replicas start or the limit is "
          "reached") {
  three_stages x;
  auto integral = [&] { return x.memory.values.at("m/1/integral"); };
  x.load.stages[1].wait = 2;
  x.counts_now();
  for (int i = 0; i < 60; ++i)
    x.counts_now(); // no replica becomes ready
  CHECK(integral() == 0);
  x.settings.scaling.max = x.last.groups[1].count;
  x.obey();
  for (int i = 0; i < 60; ++i)
    x.counts_now();
  CHECK(integral() == 0);
  x.settings.scaling.max = 100;
  x.counts_now();
  CHECK(integral() > 0);
}

TEST_CASE("QU-16: replicas of all stages stay within the total and the largest "
          "error comes first") {
  three_stages x{{{"sizing", "largest_error"}, {"total", "6"}}};
  x.load.stages[0].wait = 0.2; // error 1.75
  x.load.stages[1].wait = 1.5; // error 5
  CHECK(x.counts_now() == counts{1, 4, 1});
  std::vector<quart_stage> stages{stage_of(0.02, 90, 1), stage_of(0.06, 90, 1),
                                  stage_of(0.02, 90, 1)};
  for (auto& s : stages)
    s.congested = true;
  size_jointly(stages, {100, 9, 1, delay_formula::erlang_c});
  // The tightest stage first: 2 of 20 ms, 5 of 60 ms (83 a second), 2 of 20 ms.
  CHECK(stages[0].wanted == 2);
  CHECK(stages[1].wanted == 5);
  CHECK(stages[2].wanted == 2);
}

TEST_CASE(
  "QU-10: a stage without capacity is congested even with an empty queue") {
  for (auto* delay : {"measured", "erlang_c", "allen_cunneen", "printed"}) {
    CAPTURE(delay);
    three_stages x{{{"delay", delay}, {"window", "60s"}}};
    x.load.seconds.assign(60, 0);
    x.load.seconds[0] = x.load.seconds[1] = 20; // beyond the capacity of 16.7
    CHECK(x.counts_now()[1] > 1);
    CHECK(x.keys()[1]);
  }
}

TEST_CASE("QU-19: replicas that start are not requested twice") {
  three_stages x;
  x.set_rate(30);
  auto first = x.counts_now();
  CHECK(first[1] >= 2);
  for (int i = 0; i < 5; ++i)
    CHECK(x.counts_now() == first);
}

TEST_CASE("QU-18: a stage stops being key after the quiet time") {
  three_stages x{{{"quiet", "4s"}}};
  x.load.stages[1].wait = 0.5;
  x.counts_now();
  x.obey();
  x.load.stages[1].wait = 0;
  for (auto key : {true, true, true, false, false}) {
    x.counts_now();
    CHECK(x.keys()[1] == key);
  }
}

TEST_CASE("QU-24: a stage keeps the mean of its count and its neighbours' "
          "counts weighted by its CV") {
  std::vector<quart_stage> stages{stage_of(0.02, 1, 2), stage_of(0.02, 1, 8),
                                  stage_of(0.02, 1, 4)};
  CHECK(smoothed_count(stages, 1, 1) == doctest::Approx(0.5 * 8 + 0.5 * 3));
  CHECK(smoothed_count(stages, 1, 3) == doctest::Approx(0.75 * 8 + 0.25 * 3));
  CHECK(smoothed_count(stages, 0, 1) == doctest::Approx(0.5 * 2 + 0.5 * 8));
  CHECK(smoothed_count(stages, 2, 0) == doctest::Approx(8));
}

TEST_CASE("QU-26: no replica is removed if the predicted delay would exceed "
          "the target") {
  for (auto rate : {10., 40., 70., 100.})
    for (auto* smoother : {"safe", "laplace"}) {
      CAPTURE(rate);
      three_stages x{{{"smoother", smoother}}};
      for (auto& g : x.load.groups)
        g.ready = 8;
      x.set_rate(rate);
      auto found = x.counts_now();
      for (size_t i = 0; i < 3; ++i) {
        auto service = x.load.stages[i].run;
        CHECK(found[i] >= 1);
        CHECK(rate * service / static_cast<double>(found[i]) < 1);
        CHECK(mean_delay({rate, service, found[i], 1, 0, 0, 0},
                         delay_formula::allen_cunneen)
              <= x.last.stages.at("m")[i].target);
      }
    }
}

TEST_CASE(
  "QU-28: a count that was too small is not tried again at the same load") {
  three_stages x{{{"smoother", "safe"}}};
  x.load.stages[1].wait = 0.3; // although one suffices by the formula
  auto raised = x.counts_now()[1];
  CHECK(raised == 2);
  x.obey();
  x.load.stages[1].wait = 0;
  for (int i = 0; i < 60; ++i)
    CHECK(x.counts_now()[1] == raised);
  x.set_rate(5);
  for (int i = 0; i < 3; ++i)
    x.counts_now();
  CHECK(x.last.groups[1].count == 1);
}

TEST_CASE("QU-65: counts start from the rate of arrivals") {
  three_stages x{{{"corrector", "false"}}};
  x.set_rate(95);
  CHECK(x.counts_now() == counts{2, 6, 2});
}

TEST_CASE("QU-66: stages behind a congested one are sized before their own "
          "delay grows") {
  auto with_backlog = [](const char* sizing) {
    three_stages x{{{"sizing", sizing}}};
    x.load.stages[1].wait = 1;
    x.load.stages[1].queue = 100; // in 1 s: 110 requests/s
    return x.counts_now();
  };
  auto joint = with_backlog("joint");
  CHECK(joint[0] == 1);
  CHECK(joint[1] >= 7);
  CHECK(joint[2] >= 3);
  CHECK(with_backlog("largest_error")[2] == 1);
}

TEST_CASE("QU-23: the CV of later stages is predicted without training") {
  std::vector<queueing_station> stages(3);
  stages[0] = {0.9, 1, 1, 4, 0, 0, 0};
  stages[1] = stages[2] = {0.9, 1, 1, 1, 0, 0, 0};
  auto cvs = predicted_cvs(stages);
  CHECK(cvs[0] == 4);
  CHECK(cvs[1] == doctest::Approx(std::sqrt(0.19 * 16)));
  CHECK(cvs[2] == cvs[1]);
}

TEST_CASE("quart: complete is refused because parts are scaled") {
  three_stages x;
  x.settings.complete = true;
  CHECK(x.ask().refused.at("m").find("complete") != std::string::npos);
}
