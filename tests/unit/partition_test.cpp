// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/partition/deployment.hpp"
#include "models/partition/granularity.hpp"
#include "models/profile_book.hpp"
#include "tests/support/campaign.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

/// The worked example of the thesis, 4.1.3: 24 s to load, 4 s to run, 1 s of
/// transfer between the halves.
layer_costs two_halves() {
  return {.cold = {12, 12}, .execute = {2, 2}, .transfer = {1, 1}};
}

/// Random layers of all kinds: some free, some equal, some a thousand times as
/// costly as others.
layer_costs any_layers(random_stream& chance, size_t layers) {
  auto kind = chance.below(3);
  auto cost = [&](double most) {
    if (kind == 0)
      return most * static_cast<double>(chance.below(4));
    if (kind == 1)
      return most * std::pow(10, -3 * chance.uniform());
    return most * chance.uniform();
  };
  layer_costs out;
  out.fixed_cold = cost(1);
  for (size_t i = 0; i < layers; ++i) {
    out.cold.push_back(cost(4));
    out.execute.push_back(cost(.5) + .001);
    out.transfer.push_back(cost(.4));
  }
  return out;
}

/// The costs of a cut after each layer whose bit in `after` is set, by the
/// formulas of the thesis' table 4.1.
partition cut_at(const layer_costs& x, pipelining mode, uint32_t after) {
  partition out;
  double transfers = 0, all = 0, cold = x.fixed_cold, execute = 0;
  for (size_t i = 0; i < x.layers(); ++i) {
    cold += x.cold[i];
    execute += x.execute[i];
    all += x.execute[i];
    auto cut = i + 1 < x.layers() && (after >> i & 1) != 0;
    if (!cut && i + 1 < x.layers())
      continue;
    auto sent = cut ? x.transfer[i] : 0;
    transfers += sent;
    out.cold = std::max(out.cold, cold);
    out.period = std::max(out.period, mode == pipelining::overlapped
                                        ? std::max(execute, sent)
                                        : execute + sent);
    if (cut)
      out.cuts.push_back(static_cast<uint32_t>(i + 1));
    cold = x.fixed_cold;
    execute = 0;
  }
  out.inference = all + transfers;
  if (mode == pipelining::none)
    out.period = out.inference;
  return out;
}

/// The least mean response by number of parts, from all possible cuts.
std::map<size_t, double> tried_out(const layer_costs& x, pipelining mode,
                                   uint64_t requests, uint64_t devices) {
  std::map<size_t, double> out;
  for (uint32_t after = 0; after < 1u << (x.layers() - 1); ++after) {
    auto y = cut_at(x, mode, after);
    auto& least = out.try_emplace(y.parts(), never).first->second;
    least = std::min(least, mean_response(y, requests, devices));
  }
  return out;
}

/// Eq. 4.8, summed request by request.
double summed(const partition& x, uint64_t requests, uint64_t devices) {
  auto groups = devices / x.parts();
  double sum = 0;
  for (uint64_t y = 1; y <= requests; ++y)
    sum += x.cold + x.inference
           + x.period * static_cast<double>((y + groups - 1) / groups - 1);
  return sum / static_cast<double>(requests);
}

/// The mean response if each request goes to the replica that answers it first.
double given_out(const std::vector<replica_class>& xs, uint64_t requests) {
  std::vector<std::pair<double, double>> next;
  for (auto& x : xs)
    next.insert(next.end(), x.count, {x.first, x.period});
  double sum = 0;
  for (uint64_t i = 0; i < requests; ++i) {
    auto first = std::min_element(next.begin(), next.end());
    sum += first->first;
    first->first += first->second;
  }
  return sum / static_cast<double>(requests);
}

} // namespace

TEST_CASE("FP-11: the worked example takes 34 s whole and 34.5 s in halves and "
          "24 s in overlapping halves") {
  auto mean = [](pipelining mode, size_t parts) {
    partition_planner plans{two_halves(), mode};
    return mean_response(plans.best_of(parts, 8, 2), 8, 2);
  };
  CHECK(mean(pipelining::overlapped, 1) == 34);
  CHECK(mean(pipelining::none, 2) == 34.5);
  CHECK(mean(pipelining::overlapped, 2) == 24);
  // 12 + 5 + the mean of 0, 3, ..., 21: a half waits until its output is sent.
  CHECK(mean(pipelining::handed_on, 2) == 27.5);
}

TEST_CASE(
  "FP-11: the mean response equals the sum of eq. 4.8 over all requests") {
  partition x{.cuts = {1, 2}, .cold = 3, .period = .25, .inference = 1.5};
  for (uint64_t requests = 1; requests < 60; ++requests)
    for (uint64_t devices = 3; devices < 40; ++devices)
      CHECK(mean_response(x, requests, devices)
            == doctest::Approx(summed(x, requests, devices)));
  CHECK(mean_response(x, 1, 2) == never);
}

TEST_CASE("FP-12: no other cuts of any model have a shorter mean response") {
  auto chance = test::chance();
  for (int i = 0; i < 2500 * times(); ++i) {
    auto costs = any_layers(chance, 1 + chance.below(9));
    auto mode = static_cast<pipelining>(chance.below(3));
    partition_planner plans{costs, mode};
    auto requests = 1 + chance.below(60), devices = 1 + chance.below(12);
    auto least = never;
    for (auto [parts, mean] : tried_out(costs, mode, requests, devices)) {
      if (parts > devices)
        continue;
      auto found = mean_response(plans.best_of(parts, requests, devices),
                                 requests, devices);
      REQUIRE(found == doctest::Approx(mean).epsilon(1e-9));
      least = std::min(least, mean);
    }
    auto& best = plans.best(requests, devices);
    REQUIRE(mean_response(best, requests, devices)
            == doctest::Approx(least).epsilon(1e-9));
  }
}

TEST_CASE("FP-12: the costs of a plan are those of its cuts") {
  auto chance = test::chance();
  for (int i = 0; i < 300; ++i) {
    auto costs = any_layers(chance, 12);
    auto mode = static_cast<pipelining>(chance.below(3));
    partition_planner plans{costs, mode};
    for (size_t parts = 1; parts <= plans.max_parts(); ++parts)
      for (auto& x : plans.plans_of(parts)) {
        uint32_t after = 0;
        for (auto cut : x.cuts)
          after |= 1u << (cut - 1);
        auto same = cut_at(costs, mode, after);
        REQUIRE(x.parts() == parts);
        REQUIRE(x.cold == doctest::Approx(same.cold));
        REQUIRE(x.period == doctest::Approx(same.period));
        REQUIRE(x.inference == doctest::Approx(same.inference));
      }
  }
}

TEST_CASE("FP-13: ranges give each number of requests its best plan") {
  auto chance = test::chance();
  partition_planner plans{any_layers(chance, 20)};
  uint64_t next = 1;
  for (auto& x : plans.ranges(20, 3000)) {
    REQUIRE(x.first == next);
    for (auto requests : {x.first, (x.first + x.last) / 2, x.last})
      CHECK(x.plan == &plans.best(requests, 20));
    next = x.last + 1;
  }
  CHECK(next == 3001);
}

TEST_CASE(
  "FP-14: each number of parts has its best plan for each number of requests") {
  auto chance = test::chance();
  auto costs = any_layers(chance, 8);
  partition_planner plans{costs};
  for (uint64_t requests : {1, 2, 3, 10, 100, 3000})
    for (auto [parts, mean] :
         tried_out(costs, pipelining::overlapped, requests, 8))
      CHECK(mean_response(plans.best_of(parts, requests, 8), requests, 8)
            == doctest::Approx(mean));
}

TEST_CASE("FP-15: no plan has more parts than devices") {
  layer_costs even;
  even.cold.assign(16, 10);
  even.execute = even.transfer = std::vector<double>(16, .001);
  partition_planner plans{even};
  CHECK(plans.best(1, 16).parts() == 16);
  for (uint64_t devices = 1; devices < 16; ++devices)
    CHECK(plans.best(1, devices).parts() <= devices);
  CHECK(plans.best(1, 5).parts() == 4); // balanced like 5 parts
}

TEST_CASE("FP-17: a model stays whole if cutting has no benefit") {
  layer_costs slow_network = two_halves();
  slow_network.transfer = {13, 13};
  CHECK(partition_planner{slow_network}.best(1, 8).parts() == 1);
  layer_costs no_gain = two_halves();
  no_gain.fixed_cold = 100;
  no_gain.cold = {0, 0};
  CHECK(partition_planner{no_gain}.best(1, 8).parts() == 1);
  CHECK(partition_planner{two_halves()}.best(1, 1).parts() == 1);
  CHECK(partition_planner{two_halves(), pipelining::overlapped, 1}
          .best(1, 8)
          .parts()
        == 1);
}

TEST_CASE("planner: 55 layers have a plan for each number of parts") {
  layer_costs x;
  x.cold = x.execute = x.transfer = std::vector<double>(55, 1);
  partition_planner plans{x};
  for (size_t parts = 1; parts <= 55; ++parts)
    CHECK(plans.best_of(parts, 1, 55).parts() == parts);
}

TEST_CASE("deployment: the mean response equals that of giving each request to "
          "the replica that answers first") {
  auto chance = test::chance();
  for (int i = 0; i < 500; ++i) {
    std::vector<replica_class> xs;
    for (auto kinds = 1 + chance.below(3); kinds > 0; --kinds)
      xs.push_back(
        {1 + chance.below(5), 10 * chance.uniform(), .01 + chance.uniform()});
    auto requests = 1 + chance.below(100);
    CHECK(mean_response(xs, requests)
          == doctest::Approx(given_out(xs, requests)));
  }
  CHECK(mean_response(std::vector<replica_class>{}, 1) == never);
}

TEST_CASE("deployment: with one kind of replicas the mean response is that of "
          "eq. 4.8") {
  partition x{.cuts = {1, 2}, .cold = 3, .period = .25, .inference = 1.5};
  for (uint64_t requests : {1, 7, 40, 3000}) {
    std::vector<replica_class> groups{{4, x.cold + x.inference, x.period}};
    CHECK(mean_response(groups, requests)
          == doctest::Approx(mean_response(x, requests, 12)));
  }
}

TEST_CASE("deployment: devices beyond full groups get whole replicas") {
  partition_planner plans{two_halves()};
  auto x = best_deployment(plans, {.requests = 8, .devices = 3});
  CHECK(x.groups == 1);
  CHECK(x.full == 1);
  CHECK(x.plan->cuts == std::vector<uint32_t>{1});
}

TEST_CASE("deployment: a device that has the model in memory starts it whole") {
  partition_planner plans{two_halves()};
  auto x = best_deployment(
    plans, {.requests = 40, .devices = 4, .primed = 2, .primed_cold = 1});
  CHECK(x.primed == 2);
  CHECK(x.groups == 1);
  CHECK(x.full == 0);
  // Two replicas answer at 5, 9, 13 ... s, the group at 17, 19, 21 ... s. For a
  // single request only one replica matters.
  auto alone = best_deployment(
    plans, {.requests = 1, .devices = 2, .primed = 1, .primed_cold = 1});
  CHECK(alone.mean_response == doctest::Approx(5));
  CHECK(alone.full == 1);
}

TEST_CASE("deployment: neither other cuts nor no cuts are better") {
  auto chance = test::chance();
  for (int i = 0; i < 1000; ++i) {
    auto costs = any_layers(chance, 1 + chance.below(8));
    partition_planner plans{costs};
    auto whole = cut_at(costs, pipelining::overlapped, 0);
    scale_up x{.requests = 1 + chance.below(300),
               .devices = 1 + chance.below(20),
               .primed = chance.below(5),
               .primed_cold = whole.cold * chance.uniform()};
    auto primed = std::min(x.primed, x.devices);
    auto least = never;
    for (uint32_t after = 0; after < 1u << (costs.layers() - 1); ++after) {
      auto plan = cut_at(costs, pipelining::overlapped, after);
      auto others = x.devices - primed;
      auto groups = after == 0 ? 0 : others / plan.parts();
      if (after != 0 && groups == 0)
        continue;
      std::vector<replica_class> all{
        {primed, x.primed_cold + whole.inference, whole.period},
        {groups, plan.cold + plan.inference, plan.period},
        {others - groups * plan.parts(), whole.cold + whole.inference,
         whole.period}};
      least = std::min(least, mean_response(all, x.requests));
    }
    CHECK(best_deployment(plans, x).mean_response == doctest::Approx(least));
  }
}

TEST_CASE("FP-16: the parameters of a part come over the network and its "
          "output leaves over it") {
  profile x{.model = "m", .points = {}};
  auto layer = [&](double i, std::map<std::string, double> metrics) {
    x.points.push_back({"a10", 1, {{"layer", i}}, std::move(metrics)});
  };
  layer(0, {{"execute_seconds", 2},
            {"parameter_bytes", 3000},
            {"attach_seconds", 4},
            {"send_seconds", 5},
            {"output_bytes", 600}});
  layer(1, {{"execute_seconds", 1}});
  x.points.push_back({"a10",
                      1,
                      {},
                      {{"part_parameter_bytes", 1000},
                       {"part_attach_seconds", 7},
                       {"part_send_seconds", 8}}});
  host_link link{{1000}, 500ms};
  auto costs = layer_costs_of(x, "a10", 2, link);
  REQUIRE(costs);
  CHECK(costs->cold == std::vector<double>{3 + 4 + 5, 0});
  // two rows take twice as long
  CHECK(costs->execute == std::vector<double>{4, 2});
  CHECK(costs->transfer == std::vector<double>{.5 + 2 * .6, .5});
  CHECK(costs->fixed_cold == 1 + 7 + 8);
  CHECK(costs->primed_cold == 5 + 8);
}

TEST_CASE(
  "planner: a profile without layers or with missing layers is refused") {
  profile x{.model = "m", .points = {{"a10", 1, {}, {{"execute_seconds", 1}}}}};
  auto none = layer_costs_of(x, "a10", 1, {});
  REQUIRE_FALSE(none);
  CHECK(none.failure().text == "the profile of m has no layers on a10");
  for (double last : {1., 100.}) {
    x.points = {{"a10", 1, {{"layer", last}}, {{"execute_seconds", 1}}}};
    auto some = layer_costs_of(x, "a10", 1, {});
    REQUIRE_FALSE(some);
    CHECK(some.failure().text
          == "the profile of m has no execute_seconds of layer 0 on a10");
  }
}

TEST_CASE("planner: the bundled T5-3B has the 55 layers and cold start and "
          "transfers of the thesis") {
  auto book = read_book(MILLRACE_SOURCE "/models/profiles/flashpoint.yaml");
  REQUIRE(book);
  CHECK(book->models().size() == 6);
  // The network between hosts of the thesis. 27.5 s is the digest's value,
  // 25.974 s the thesis'.
  host_link link{{7506.89e6 / 8}, 28us};
  auto t5 = layer_costs_of(*book->find("t5-3b"), "a10", 1, link);
  REQUIRE(t5);
  REQUIRE(t5->layers() == 55);
  partition_planner plans{*t5};
  auto& whole = plans.plans_of(1).front();
  CHECK(whole.cold == doctest::Approx(27.5).epsilon(.01));
  CHECK(whole.inference == doctest::Approx(.1406).epsilon(.001));
  auto& least = plans.best_of(55, 1, 55);
  CHECK(least.cold == doctest::Approx(.589).epsilon(.15));
  CHECK(whole.cold / least.cold == doctest::Approx(44.1).epsilon(.1));
  CHECK(least.inference - whole.inference
        == doctest::Approx(.0618).epsilon(.01));
}

TEST_CASE("profile: the load time of a part is the sum of its layers and a "
          "constant per part") {
  auto book = read_book(MILLRACE_SOURCE "/models/profiles/flashpoint.yaml");
  REQUIRE(book);
  auto albert = *book->find("albert-xxlarge");
  auto part = [&](size_t first, size_t last) {
    auto x = load_seconds_of_part(albert, "a10", first, last);
    REQUIRE(x);
    return *x;
  };
  CHECK(part(0, 14) == doctest::Approx(1.19707)); // like the whole model
  CHECK(part(1, 13) == doctest::Approx(1.00015 + .085315));
  CHECK(part(0, 1) == doctest::Approx(part(1, 2) + .0194834 + .00166197));
  CHECK_FALSE(load_seconds_of_part(albert, "a10", 0, 15));
  CHECK_FALSE(load_seconds_of_part(albert, "v100", 0, 1));
}

TEST_CASE("planner: the time of a warm-up is spread over the cold starts of "
          "the layers") {
  profile x{.model = "m", .points = {{"d", 1, {}, {{"warm_up_seconds", 3}}}}};
  for (double i = 0; i < 2; ++i)
    x.points.push_back({"d", 1, {{"layer", i}}, {{"execute_seconds", 1 + i}}});
  auto costs = layer_costs_of(x, "d", 1, {});
  REQUIRE(costs);
  CHECK(costs->cold == std::vector<double>{1, 2});
}

TEST_CASE("FP-17: a model whose layers share parameters gains almost nothing "
          "from cuts") {
  auto book = read_book(MILLRACE_SOURCE "/models/profiles/flashpoint.yaml");
  REQUIRE(book);
  auto albert = layer_costs_of(*book->find("albert-xxlarge"), "a10", 1, {});
  REQUIRE(albert);
  partition_planner plans{*albert};
  auto& whole = plans.plans_of(1).front();
  CHECK(plans.best_of(14, 1, 14).cold > .9 * whole.cold);
  CHECK(plans.best(3000, 8).parts() == 1);
}

TEST_CASE(
  "planner: a profile with impossible costs or too many layers is refused") {
  profile x{.model = "m", .points = {}};
  for (double i = 0; i <= max_profiled_layers; ++i)
    x.points.push_back({"a10", 1, {{"layer", i}}, {{"execute_seconds", 1}}});
  auto many = layer_costs_of(x, "a10", 1, {});
  REQUIRE_FALSE(many);
  CHECK(many.failure().text
        == "the profile of m has more layers than the 128 that can be planned"
           " for");
  x.points.resize(2);
  REQUIRE(layer_costs_of(x, "a10", 1, {}));
  x.points[1].metrics["attach_seconds"] = -5;
  auto less = layer_costs_of(x, "a10", 1, {});
  REQUIRE_FALSE(less);
  CHECK(less.failure().text == "the profile of m: layer 1 takes -5 s");
  x.points[1].metrics["attach_seconds"] = 5;
  // a network of speed zero
  CHECK_FALSE(layer_costs_of(x, "a10", 1, {{0}, 1ms}));
}

TEST_CASE("granularity: an activation is no layer of its own and a cut is "
          "where the fewest tensors cross") {
  // linear, relu, linear, add: one tensor crosses after the add, two before it
  const std::vector<fine_layer> xs{{100, 0}, {0, 64},   {100, 64},
                                   {0, 64},  {100, 32}, {0, 32}};
  CHECK(choose_layers(xs, 64) == std::vector<uint32_t>{0, 2, 4});
}

TEST_CASE("granularity: a small layer is merged with its lighter neighbour") {
  const std::vector<fine_layer> xs{{5, 0},   {100, 1}, {90, 1}, {5, 1},
                                   {100, 1}, {100, 1}, {5, 1}};
  CHECK(choose_layers(xs, 64, 50) == std::vector<uint32_t>{0, 2, 4, 5});
}

TEST_CASE(
  "granularity: too many layers are merged evenly to the requested number") {
  const std::vector<fine_layer> xs{{10, 0}, {10, 1}, {30, 1}, {10, 1}, {10, 1}};
  CHECK(choose_layers(xs, 3) == std::vector<uint32_t>{0, 2, 3});
  CHECK(choose_layers(xs, 1) == std::vector<uint32_t>{0});
  CHECK(choose_layers(xs, 0) == std::vector<uint32_t>{0});
}

TEST_CASE("granularity: any layers are merged to the allowed number with "
          "enough parameters each") {
  random_stream random{7};
  for (int round = 0; round < 2000; ++round) {
    std::vector<fine_layer> xs(1 + random.below(40));
    for (auto& x : xs)
      x = {random.below(3) == 0 ? 0 : random.below(1000), random.below(100)};
    auto most = 1 + random.below(20);
    auto least = random.below(500);
    auto firsts = choose_layers(xs, most, least);
    REQUIRE(!firsts.empty());
    CHECK(firsts[0] == 0);
    CHECK(firsts.size() <= most);
    CHECK(std::is_sorted(firsts.begin(), firsts.end()));
    for (size_t i = 0; firsts.size() > 1 && i < firsts.size(); ++i) {
      auto end = i + 1 < firsts.size() ? firsts[i + 1] : xs.size();
      uint64_t has = 0;
      for (size_t k = firsts[i]; k < end; ++k)
        has += xs[k].parameters;
      CHECK(has >= least);
    }
  }
}
