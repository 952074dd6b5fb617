// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "actors/policies/registry.hpp"
#include "actors/policies/scale/usher_plan.hpp"
#include "models/profile_book.hpp"

/// \file
/// Values of the interference framework (thesis 505, 2024), table A.1 and
/// section 3.5; appendix B.3 of its digest.

using namespace millrace;

namespace {

const profile_book& table_a1() {
  static const auto book =
    *read_book(MILLRACE_SOURCE "/models/profiles/v100-thesis.yaml");
  return book;
}

double value(const std::string& model, double batch, const std::string& name) {
  return curve_of(*table_a1().find(model), name, "v100").at(batch);
}

/// A number of V100 devices and some models with the profiles of table A.1.
struct v100_cluster {
  v100_cluster(const std::vector<std::string>& names, microseconds slo,
               size_t devices) {
    for (auto& name : names)
      add_model(name, slo);
    for (size_t i = 0; i < devices; ++i)
      add_node("gpu-" + std::to_string(i));
    snapshot.costs = std::make_shared<const cost_book>(costs);
    snapshot.covered = 1h;
  }

  void add_model(const std::string& name, microseconds slo) {
    model_settings settings;
    settings.model = name;
    settings.slo = slo;
    settings.scaling.scope = "cluster";
    model_info bundle;
    bundle.model = name;
    bundle.layer_bytes = {1 << 20};
    bundle.bytes = 1 << 20;
    snapshot.models[name] = std::make_shared<const model_state>(
      model_state{settings, "cluster", 1, bundle, true});
    costs.profiles[name] = std::make_shared<const model_profiles>(
      model_profiles{{*table_a1().find(name)}});
  }

  void add_node(const std::string& name, uint64_t memory = 16ull << 30) {
    node_state node;
    node.node.name = name;
    node.devices.push_back({"v100:0", "v100", 16, byte_count{memory}});
    snapshot.nodes[name] = std::make_shared<const node_state>(node);
  }

  proposal ask(const std::string& policy, option_texts options) {
    scope_state scope;
    scope.settings.policy = policy;
    scope.settings.options = std::move(options);
    for (auto& [name, model] : snapshot.models)
      scope.models.push_back(name);
    snapshot.scopes["cluster"] = std::make_shared<const scope_state>(scope);
    auto made = make_scaling_policy("cluster", scope.settings);
    REQUIRE(made);
    return (*made)->propose(snapshot, memory, random, now);
  }

  cluster_snapshot snapshot;
  cost_book costs{1, {}, {}};
  policy_memory memory;
  random_stream random{1};
  timestamp now{1h};
};

/// Replicas by model, as "MODEL bBATCH xCOUNT".
std::map<std::string, std::string> replicas_in(const proposal& x) {
  std::map<std::string, uint64_t> count, batch;
  for (auto& g : x.groups) {
    count[g.model] += g.count;
    batch[g.model] = g.tuned.batch;
  }
  std::map<std::string, std::string> out;
  for (auto& [model, n] : count)
    out[model] =
      n == 0 ? "none"
             : "b" + std::to_string(batch[model]) + " x" + std::to_string(n);
  return out;
}

std::set<std::string> devices_in(const proposal& x) {
  std::set<std::string> out;
  for (auto& g : x.groups)
    if (g.count > 0)
      out.insert(g.device);
  return out;
}

/// The expected goodput, taken from the reason of a model.
std::string total_in(const proposal& x) {
  auto& text = x.reasons.begin()->second;
  auto begin = text.find("all models ") + 11;
  return text.substr(begin, text.find(" on ", begin) - begin);
}

const std::vector<std::string> vision{"alexnet", "densenet121",
                                      "efficientnet_b7", "resnet50", "vgg19"};
const std::vector<std::string> mixed{"bert", "gpt2", "mobilenet_v2",
                                     "resnet50"};

/// The expected goodput with 1 to `most` devices.
std::vector<std::string> totals(const std::vector<std::string>& models,
                                microseconds slo, size_t most,
                                const std::string& policy,
                                const option_texts& options) {
  std::vector<std::string> out;
  for (size_t n = 1; n <= most; ++n)
    out.push_back(total_in(v100_cluster{models, slo, n}.ask(policy, options)));
  return out;
}

/// The least sum of |sum of Creq - sum of Mreq| over all possible pairings.
double least_weight(std::vector<double> surplus, size_t pairs) {
  if (pairs == 0)
    return 0;
  double best = 1e9;
  for (size_t i = 0; i < surplus.size(); ++i)
    for (size_t j = i + 1; j < surplus.size(); ++j) {
      auto others = surplus;
      others.erase(others.begin() + static_cast<long>(j));
      others.erase(others.begin() + static_cast<long>(i));
      best = std::min(best, std::abs(surplus[i] + surplus[j])
                              + least_weight(others, pairs - 1));
    }
  return best;
}

} // namespace

TEST_CASE(
  "IF-50: table A.1 is a profile with rates and memory and metrics by batch") {
  CHECK(table_a1().models().size() == 13);
  size_t points = 0;
  for (auto& x : table_a1().all())
    points += x.points.size();
  CHECK(points == 71);
  CHECK(8 / value("efficientnet_b7", 8, "execute_seconds")
        == doctest::Approx(260.14).epsilon(1e-6));
  CHECK(value("resnet50", 4, "wao_percent") == 17.55);
  CHECK(value("bert", 16, "ao_percent") == 91.29);
  CHECK(value("alexnet", 4, "wsm_percent") == 47.07);
  CHECK(value("vgg19", 128, "memory_bytes") / (16ull << 30)
        == doctest::Approx(0.6591));
}

TEST_CASE("IF-55: usher takes no batch with a latency over the SLO") {
  v100_cluster x{{"resnet50"}, 20ms, 1};
  option_texts options{{"rate", "5000"}};
  CHECK(replicas_in(x.ask("usher", options)).at("resnet50") == "none");
  v100_cluster y{{"resnet50"}, 20ms, 8};
  CHECK(replicas_in(y.ask("usher", options)).at("resnet50") == "b16 x6");
  v100_cluster z{{"resnet50"}, 4ms, 8}; // batch 4 takes 6.8 ms
  CHECK(replicas_in(z.ask("usher", options)).at("resnet50") == "none");
}

TEST_CASE("IF-56: usher groups by a matching of least weight and most pairs in "
          "floor log2 n rounds") {
  random_stream random{7};
  for (int round = 0; round < 200; ++round) {
    std::vector<usher_model> models;
    std::vector<double> surplus;
    auto n = 2 + static_cast<size_t>(random.uniform() * 6);
    for (size_t i = 0; i < n; ++i) {
      auto compute = random.uniform() * 100, memory = random.uniform() * 100;
      models.push_back({std::to_string(i), 1, {{4, 1, compute, memory}}});
      surplus.push_back(compute - memory);
    }
    double weight = 0;
    size_t pairs = 0;
    for (auto& group : group_by_demand(models, 2))
      if (group.size() == 2) {
        weight += std::abs(surplus[group[0]] + surplus[group[1]]);
        ++pairs;
      }
    CHECK(pairs == n / 2);
    CHECK(weight == doctest::Approx(least_weight(surplus, n / 2)));
  }
  std::vector<usher_model> alike(8, {"m", 1, {{4, 1, 90, 5}}});
  alike.push_back({"without a batch", 1, {}});
  for (uint64_t most : {1, 2, 3, 4, 7, 8}) {
    CAPTURE(most);
    size_t largest = 0, all = 0;
    for (auto& group : group_by_demand(alike, most)) {
      largest = std::max(largest, group.size());
      all += group.size();
    }
    CHECK(largest == (most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1));
    CHECK(all == 8);
    CHECK(group_by_demand(alike, most) == group_by_demand(alike, most));
  }
}

TEST_CASE("IF-57: usher tries 1 to 6 times the least replica count and skips a "
          "model that needs more devices") {
  // Three replicas of rate 10 serve 25; batch 1 has a rate of 4.
  std::vector<usher_model> models{{"m", 25, {{1, 4, 60, 1}, {8, 10, 90, 1}}}};
  auto count = [&](size_t devices, uint64_t factors = 6) {
    usher_limits limits;
    limits.factors = factors;
    return make_usher_plan(models, {{0}}, devices, limits).replicas.size();
  };
  CHECK(count(2) == 0);
  CHECK(count(3) == 3);
  CHECK(count(9) == 3);               // the fewest devices
  models[0].batches[1].compute = 101; // too large: batch 1 needs 7 replicas
  CHECK(count(8) == 6);
  CHECK(count(9) == 7);
  CHECK(count(9, 2) == 6);
}

TEST_CASE("IF-58: usher places one-sided models in turn and neutral ones last "
          "and prefers devices of its group") {
  auto order = [](double memory_of_2, double heavy) {
    // All on one device, so that the replicas show the order.
    std::vector<usher_model> models{{"neutral", 1, {{4, 1, 20, 20}}},
                                    {"compute", 1, {{4, 1, 24, 1}}},
                                    {"edge", 1, {{4, 1, 10, memory_of_2}}},
                                    {"compute too", 1, {{4, 1, 23, 1}}}};
    usher_limits limits;
    limits.heavy = heavy;
    std::vector<size_t> out;
    for (auto& r : make_usher_plan(models, {{0, 1, 2, 3}}, 1, limits).replicas)
      out.push_back(r.model);
    return out;
  };
  using models = std::vector<size_t>;
  CHECK(order(12, 1.2) == models{2, 1, 3, 0});
  CHECK(order(11.9, 1.2) == models{1, 3, 0, 2});
  CHECK(order(12, 1.3) == models{1, 3, 0, 2});
  std::vector<usher_model> three{{"a", 1, {{4, 1, 70, 1}}},
                                 {"b", 1, {{4, 1, 60, 1}}},
                                 {"c", 1, {{4, 1, 35, 1}}}};
  auto device_of = [&](const usher_groups& groups, size_t model) {
    for (auto& r : make_usher_plan(three, groups, 3).replicas)
      if (r.model == model)
        return static_cast<int>(r.device);
    return -1;
  };
  CHECK(device_of({{0}, {1, 2}}, 1) == 1); // no room beside a
  CHECK(device_of({{0}, {1, 2}}, 2) == 1); // beside b of its group
  three[2].batches[0].compute = 45;
  CHECK(device_of({{0}, {1}, {2}}, 2) == 2); // no room on a used device
  three[2].batches[0].compute = 40;
  CHECK(device_of({{0}, {1}, {2}}, 2) == 1); // beside b of another group
}

TEST_CASE("IF-59: usher expects the goodput of the three cases of the thesis") {
  option_texts at_400{{"rate", "400"}};
  auto first =
    v100_cluster{{"resnet50", "alexnet", "t5", "gpt2"}, 200ms, 4}.ask("usher",
                                                                      at_400);
  CHECK(total_in(first) == "800");
  CHECK(replicas_in(first).at("t5") == "b8 x3");
  at_400["groups"] = "bert resnet50 gpt2; vgg19 mobilenet_v2";
  auto second =
    v100_cluster{
      {"bert", "resnet50", "gpt2", "vgg19", "mobilenet_v2"}, 300ms, 4}
      .ask("usher", at_400);
  CHECK(total_in(second) == "793.57");
  CHECK(replicas_in(second).at("bert") == "b32 x3");
  auto third =
    v100_cluster{{"resnet50", "alexnet", "mobilenet_v2", "bert"}, 200ms, 4}.ask(
      "usher", {{"rate", "500"}});
  CHECK(total_in(third) == "1500");
  CHECK(replicas_in(third).at("bert") == "none");
  CHECK(devices_in(third).size() == 3);
}

TEST_CASE("IF-59: usher expects the goodput of appendix B.3 in E1 with 1 to 6 "
          "and in E2 with 1 to 8 devices") {
  using texts = std::vector<std::string>;
  option_texts groups{{"rate", "500"},
                      {"groups", "vgg19 densenet121 efficientnet_b7;"
                                 " alexnet resnet50"}};
  CHECK(totals(vision, 200ms, 6, "usher", groups)
        == texts{"500", "1000", "1344.1", "1500", "2000", "2500"});
  CHECK(totals(mixed, 300ms, 8, "usher", {{"rate", "300"}})
        == texts{"300", "600", "731.19", "862.38", "900", "1031.19", "1162.38",
                 "1200"});
  auto six = replicas_in(v100_cluster{vision, 200ms, 6}.ask("usher", groups));
  CHECK(six.at("efficientnet_b7") == "b8 x2");
  CHECK(six.at("resnet50") == "b4 x1");
}

TEST_CASE("IF-60: wao-usher equals usher with another metric and its "
          "placements of E1 and E2 match the thesis") {
  option_texts e1{
    {"rate", "500"},
    {"groups", "vgg19 alexnet resnet50; densenet121 efficientnet_b7"}};
  auto by_metric = e1;
  by_metric["metric"] = "wao_percent";
  for (size_t n = 1; n <= 6; ++n) {
    v100_cluster x{vision, 200ms, n};
    auto is = x.ask("wao-usher", e1);
    CHECK(is == x.ask("usher", by_metric));
    CHECK(devices_in(is).size() == std::min<size_t>(n, 3));
    if (n >= 3)
      CHECK(total_in(is) == "2500");
  }
  for (size_t n = 3; n <= 8; ++n) {
    auto is = v100_cluster{mixed, 300ms, n}.ask("wao-usher", {{"rate", "300"}});
    CHECK(total_in(is) == "1200");
    CHECK(replicas_in(is)
          == std::map<std::string, std::string>{{"bert", "b4 x3"},
                                                {"gpt2", "b4 x3"},
                                                {"mobilenet_v2", "b4 x1"},
                                                {"resnet50", "b4 x1"}});
    CHECK(devices_in(is).size() == 3);
  }
}

TEST_CASE("IF-64: usher limits each replica to its compute demand unless "
          "shares are off and runs one batch at a time") {
  v100_cluster x{mixed, 300ms, 3};
  for (auto& g : x.ask("wao-usher", {{"rate", "300"}}).groups) {
    CAPTURE(g.model);
    CHECK(g.share == doctest::Approx(value(g.model, 4, "wao_percent") / 100));
    CHECK(g.tuned.concurrency == 1);
    CHECK(g.count == 1);
  }
  for (auto& g :
       x.ask("wao-usher", {{"rate", "300"}, {"shares", "false"}}).groups)
    CHECK(g.share == 0);
}

TEST_CASE("IF-12: the memory of the replicas that usher places stays within "
          "the device") {
  v100_cluster x{{"alexnet", "resnet50"}, 200ms, 0};
  x.add_node("small", 400'000'000); // alexnet b4: 285 MB, resnet50 b4: 199 MB
  x.add_node("small too", 400'000'000);
  auto is = x.ask("wao-usher", {{"rate", "100"}});
  CHECK(devices_in(is).size() == 2);
  x.add_node("small", 16ull << 30);
  x.add_node("small too", 16ull << 30);
  CHECK(devices_in(x.ask("wao-usher", {{"rate", "100"}})).size() == 1);
}

TEST_CASE("usher: measured rates count once all gateways reported for the "
          "window and stay until renewal") {
  v100_cluster x{{"bert"}, 300ms, 4};
  auto replicas = [&](const option_texts& options, double rate) {
    model_load load;
    load.seconds.assign(60, rate);
    x.snapshot.loads["bert"] = std::make_shared<const model_load>(load);
    x.now += 1min;
    return x.ask("usher", options);
  };
  x.snapshot.covered = 5s;
  auto early = replicas({}, 200);
  CHECK(early.groups.empty());
  CHECK(early.refused.at("bert") == "its rate of arrivals is not known yet");
  x.snapshot.covered = 10s;
  CHECK(replicas_in(replicas({}, 200)).at("bert") == "b4 x2");
  CHECK(replicas_in(replicas({}, 300)).at("bert") == "b4 x2");
  CHECK(replicas_in(replicas({{"renew", "90s"}}, 300)).at("bert") == "b4 x3");
  CHECK(replicas_in(replicas({{"renew", "90s"}}, 100)).at("bert") == "b4 x3");
  CHECK(replicas_in(replicas({{"rates", "bert 100"}}, 300)).at("bert")
        == "b4 x1");
}

TEST_CASE(
  "usher: malformed options and models without a plan are refused by name") {
  auto refused = [](const std::string& key, const std::string& text) {
    auto made =
      make_scaling_policy("cluster", {"usher", {{key, text}}, 1s, {}, {}});
    return !made && made.failure().text.find(key) != std::string::npos;
  };
  CHECK(refused("rates", "bert"));
  CHECK(refused("rates", "bert 0"));
  CHECK(refused("rates", "bert 1; bert 2"));
  CHECK(refused("groups", "bert; bert"));
  CHECK(refused("groups", "a b c d e"));
  CHECK(refused("groups", "a;;b"));
  v100_cluster x{mixed, 300ms, 3};
  auto partly =
    x.ask("usher", {{"rate", "300"}, {"groups", "bert; resnet50 gpt2"}});
  CHECK(partly.refused
        == std::map<std::string, std::string>{
          {"mobilenet_v2", "option groups does not name it"}});
  auto unknown = x.ask("usher", {{"rate", "300"}, {"metric", "heat_percent"}});
  CHECK(unknown.groups.empty());
  CHECK(unknown.refused.at("bert")
        == "no profile has heat_percent on any device");
}
