// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "runtime/text.hpp"
#include "tests/support/runs.hpp"
#include "transport/messages/all.hpp"

/// \file
/// Experiments of the interference framework (thesis 505, 2024, sections 5.4
/// and 6.2) in the simulator.

using namespace millrace;
using namespace millrace::test;

namespace {

/// Figures of one model over a whole run.
struct model_figures {
  double requests = 0;
  double in_time = 0;
  double throughput = 0; ///< answers/s over the active time
  double goodput = 0;    ///< answers/s within the SLO
  double batch = 0;      ///< mean number of requests per batch
};

model_figures figures_of(const simulator::record& run, const std::string& model,
                         microseconds slo) {
  model_figures out;
  auto first = microseconds::max(), last = 0us;
  double answers = 0, batches = 0;
  for (auto& x : run.requests) {
    if (run.names[x.model] != model)
      continue;
    ++out.requests;
    first = std::min(first, x.sent);
    last = std::max(last, x.ended);
    answers += x.status == ec::ok;
    out.in_time += x.status == ec::ok && x.ended - x.sent <= slo;
  }
  for (auto& x : run.batches)
    if (run.names[x.model] == model) {
      ++batches;
      out.batch += x.requests;
    }
  REQUIRE(batches > 0);
  out.batch /= batches;
  out.throughput = answers / to_seconds(last - first);
  out.goodput = out.in_time / to_seconds(last - first);
  return out;
}

/// Run time in ms of each full batch of a model between two times.
std::vector<double> batch_times(const simulator::record& run,
                                const std::string& model, microseconds from,
                                microseconds to) {
  std::vector<double> out;
  for (auto& x : run.batches)
    if (run.names[x.model] == model && x.requests == 4 && x.started >= from
        && x.ended <= to)
      out.push_back(to_seconds(x.ended - x.started) * 1000);
  return out;
}

std::set<std::string> devices_of(const simulator::record& run,
                                 const std::string& model) {
  std::set<std::string> out;
  for (auto& x : run.replicas)
    if (model.empty() || run.names[x.model] == model)
      out.insert(run.names[x.device]);
  return out;
}

} // namespace

TEST_CASE("IF-68: efficientnet_b7 on two GPUs has equal throughput but less"
          " goodput with batches of 64 than with 8") {
  auto usher =
    figures_of(run_example("e1-usher-6.yaml"), "efficientnet_b7", 200ms);
  auto ao = figures_of(run_example("e1-ao-6.yaml"), "efficientnet_b7", 200ms);
  CHECK(usher.in_time >= 0.98 * usher.requests);
  CHECK(usher.batch == doctest::Approx(8).epsilon(0.01));
  CHECK(ao.throughput == doctest::Approx(usher.throughput).epsilon(0.02));
  CHECK(ao.goodput <= 0.65 * usher.goodput);
  CHECK(ao.batch > 42);
  CHECK(ao.batch < 46);
}

TEST_CASE("IF-70: with the law wsm a batch of resnet50 takes 6.8 ms alone and"
          " 8.0 ms beside alexnet") {
  auto run = run_example("e1-wsm-5.yaml");
  auto alone = batch_times(run, "resnet50", 0us, 10s);
  auto beside = batch_times(run, "resnet50", 10'100ms, 20s);
  REQUIRE(alone.size() > 500);
  REQUIRE(beside.size() > 500);
  for (auto* all : {&alone, &beside}) {
    auto expected = all == &alone ? 6.8 : 8.0;
    CHECK(std::abs(*std::min_element(all->begin(), all->end()) - expected)
          < 0.1);
    CHECK(std::abs(*std::max_element(all->begin(), all->end()) - expected)
          < 0.1);
  }
}

TEST_CASE("IF-60: wao-usher loads bert and gpt2 side by side on three GPUs and"
          " serves both worse than usher on four") {
  auto wao = run_example("e2-wao-4.yaml");
  CHECK(devices_of(wao, "").size() == 3);
  CHECK(devices_of(wao, "bert").size() == 3);
  CHECK(devices_of(wao, "gpt2").size() == 3);
  auto usher = run_example("e2-wao-4.yaml", {"scopes.cluster.policy=usher"});
  CHECK(devices_of(usher, "").size() == 4);
  double in_time_wao = 0, in_time_usher = 0;
  for (auto* model : {"bert", "gpt2"}) {
    in_time_wao += figures_of(wao, model, 300ms).in_time;
    if (!devices_of(usher, model).empty())
      in_time_usher += figures_of(usher, model, 300ms).in_time;
  }
  CAPTURE(in_time_wao);
  CHECK(in_time_wao < in_time_usher);
}

namespace {

/// A run of e1-usher-6.yaml at a twentieth of its rates, in which an operator
/// changes the policy of the scope after 8 s.
struct switched_run {
  explicit switched_run(std::vector<std::string> changes)
    : what(example("e1-usher-6.yaml", slower(std::move(changes)))) {
    auto made = simulator::simulation::prepare(what, {});
    REQUIRE(made);
    run = std::move(*made);
    notes.emplace(run->begin(), what.spec.length);
    run->add(*notes);
    auto said = false;
    run->run({}, [&] {
      auto& inside = run->inside();
      if (said || inside.world().now() < run->begin() + 8s)
        return false;
      said = true;
      scope_settings to;
      to.policy = "wao-usher";
      to.options = {{"rate", "500"},
                    {"groups", "vgg19 alexnet resnet50; densenet121"
                               " efficientnet_b7"}};
      to.rollout.unavailable = 1;
      inside.at("front").bus()->operator_says(1, "front/registry",
                                              set_scope{"cluster", to});
      return false;
    });
    record = notes->take();
  }

  static std::vector<std::string> slower(std::vector<std::string> x) {
    for (int i = 0; i < 5; ++i)
      x.push_back("workload[" + std::to_string(i) + "].rate=20");
    return x;
  }

  /// Stores the running replicas by model as "batch 8 on gpu-2/v100.0,
  /// gpu-3/v100.0", and their shares.
  void look() {
    std::map<std::string, std::set<std::string>> devices;
    for (auto& [name, node] : what.cluster.nodes) {
      if (node.devices.empty())
        continue;
      auto status = run->ask<node_status>(name, "supervisor", get_status{});
      REQUIRE(status);
      for (auto& r : status->replicas) {
        CHECK(r.state == replica_condition::ready);
        devices[r.what.model].insert(name + "/" + r.what.device);
        batches[r.what.model] = r.what.tuned.batch;
        shares[r.what.model] = r.what.share;
      }
    }
    for (auto& [model, all] : devices)
      placed[model] = "batch " + std::to_string(batches[model]) + " on "
                      + joined(all, ", ", [](auto& device) { return device; });
    auto list = run->ask<scaling_list>("front", "autoscaler", get_scaling{});
    REQUIRE(list);
    for (auto& x : list->models)
      reasons[x.model] = x.reason;
  }

  loaded_scenario what;
  std::optional<simulator::recorder> notes; ///< must outlive the run
  std::unique_ptr<simulator::simulation> run;
  simulator::record record;
  std::map<std::string, uint64_t> batches;
  std::map<std::string, double> shares;
  std::map<std::string, std::string> placed, reasons;
};

} // namespace

TEST_CASE("IF-71: a change of policy under load loses no request and ends with"
          " the replicas of the decision") {
  for (auto* gpus : {"7", "6"}) {
    CAPTURE(gpus);
    switched_run x{{"hosts[1].count=" + std::string{gpus}}};
    for (auto& r : x.record.requests)
      CHECK(r.status == ec::ok);
    x.look();
    CHECK(x.placed.size() == 5);
    for (auto& its : x.placed) {
      CAPTURE(its.first);
      CAPTURE(x.reasons[its.first]);
      CHECK(x.reasons[its.first].find(its.second + ":") != std::string::npos);
    }
    CHECK(x.batches["vgg19"] == 16);
    CHECK(x.batches["resnet50"] == 4);
    CHECK(x.batches["efficientnet_b7"] == 8);
    CHECK(x.shares["resnet50"] == doctest::Approx(0.1755)); // WAO of table A.1
    x.run->finish();
  }
}
