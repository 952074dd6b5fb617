// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "actors/policies/registry.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "bench/bench.hpp"
#include "millrace/print.hpp"
#include "millrace/progress.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

struct policy_options {
  size_t models = 100;
  size_t kinds = 50;
  size_t stages = 8;
  int rounds = 200;
};

/// A scope of several models with load, and its policy.
struct decided_scope {
  cluster_snapshot snapshot;
  std::shared_ptr<const scaling_policy> policy;
  policy_memory memory;
  random_stream random{1};

  void add_model(model_state x, model_load load) {
    auto name = x.settings.model;
    snapshot.models[name] = std::make_shared<const model_state>(std::move(x));
    snapshot.loads[name] = std::make_shared<const model_load>(std::move(load));
  }

  /// Errors: bad_request for invalid options of the policy.
  result<void> add_scope(const std::string& policy_name, option_texts options) {
    scope_settings settings;
    settings.policy = policy_name;
    settings.options = std::move(options);
    scope_state scope{settings, {}};
    for (auto& [name, x] : snapshot.models)
      scope.models.push_back(name);
    snapshot.scopes["cluster"] = std::make_shared<const scope_state>(scope);
    auto made = make_scaling_policy("cluster", settings);
    if (!made)
      return made.failure();
    policy = *made;
    snapshot.covered = 1h;
    return {};
  }

  double decide(timestamp now) {
    return seconds_of([&] {
      auto x = policy->propose(snapshot, memory, random, now);
      if (x.groups.size() < snapshot.models.size())
        std::abort();
    });
  }

  /// Seconds to copy the loads that a decision reads.
  double copy() const {
    return seconds_of([&] {
      size_t n = 0;
      for (auto& [name, x] : snapshot.loads) {
        auto copied = *x;
        n += copied.seconds.size();
      }
      if (n == 0)
        std::abort();
    });
  }
};

model_state model_of(size_t number, uint64_t layers) {
  model_state out;
  out.settings.model = "m" + std::to_string(number);
  out.settings.slo = 200ms;
  out.settings.scaling.max = 100;
  out.scope = "cluster";
  out.version = 1;
  out.elastic = true;
  out.bundle.model = out.settings.model;
  out.bundle.layer_bytes.assign(layers, 1 << 20);
  out.bundle.bytes = layers << 20;
  return out;
}

/// A random load, so that no two decisions have the same load.
model_load load_of(random_stream& chance) {
  model_load out;
  for (int i = 0; i < 60; ++i)
    out.seconds.push_back(50 + 100 * chance.uniform());
  out.rate = out.seconds.front();
  out.service = 0.02;
  return out;
}

result<decided_scope> paldia_scope(const policy_options& x,
                                   random_stream& chance) {
  decided_scope out;
  node_state node;
  std::string prices;
  cost_book book{1, {}, {}};
  for (size_t k = 0; k < x.kinds; ++k) {
    device_info device;
    device.id = device.kind = "kind" + std::to_string(k);
    device.lanes = 16;
    node.devices.push_back(device);
    prices += (k == 0 ? "" : "; ") + device.kind + " "
              + format_number(1 + static_cast<double>(k));
  }
  out.snapshot.nodes["w"] = std::make_shared<const node_state>(node);
  for (size_t m = 0; m < x.models; ++m) {
    auto model = model_of(m, 1);
    profile known;
    known.model = model.settings.model;
    for (size_t k = 0; k < x.kinds; ++k) {
      auto& kind = node.devices[k].kind;
      auto solo = 0.0005 * (1 + 50.0 / static_cast<double>(k + 1));
      for (auto rows : {1., 64.}) {
        known.points.push_back(
          {kind,
           rows,
           {},
           {{"execute_seconds", solo * rows}, {"bandwidth_share", 0.4}}});
        for (auto at_once : {2., 4., 16.})
          known.points.push_back(
            {kind,
             rows,
             {{"at_once", at_once}},
             {{"execute_seconds", solo * rows * std::max(1., 0.4 * at_once)}}});
      }
    }
    book.profiles[known.model] =
      std::make_shared<const model_profiles>(model_profiles{{known}});
    out.add_model(std::move(model), load_of(chance));
  }
  out.snapshot.costs = std::make_shared<const cost_book>(std::move(book));
  if (auto done = out.add_scope("paldia", {{"prices", prices}}); !done)
    return done.failure();
  return out;
}

result<decided_scope> quart_scope(const policy_options& x,
                                  random_stream& chance) {
  decided_scope out;
  for (size_t m = 0; m < x.models; ++m) {
    auto model = model_of(m, 2 * x.stages);
    for (size_t s = 1; s < x.stages; ++s)
      model.settings.cuts.push_back(2 * s);
    auto load = load_of(chance);
    auto groups = configured_groups(model);
    if (!groups)
      return groups.failure();
    for (auto& g : *groups) {
      load.groups.push_back(
        {{g.id, model.scope, g.cut, g.stage, {}, {}, 3, 0, 0},
         g.layers,
         1,
         3,
         0});
      load.stages.push_back({g.layers, 1, 0.02 * chance.uniform(),
                             0.01 + 0.03 * chance.uniform(), 0.3,
                             4 * chance.uniform(), 100});
    }
    out.add_model(std::move(model), std::move(load));
  }
  if (auto done = out.add_scope("quart", {}); !done)
    return done.failure();
  return out;
}

/// Adds rows for the median and the 99th percentile of a decision.
void add_rows(decided_scope& of, const std::string& name, int rounds,
              std::vector<bench_row>& out) {
  std::vector<double> ours, floors;
  for (int i = 0; i < rounds; ++i) {
    floors.push_back(1e6 * of.copy());
    ours.push_back(1e6 * of.decide(timestamp{1h} + i * 1s));
  }
  std::sort(ours.begin(), ours.end());
  std::sort(floors.begin(), floors.end());
  for (auto p : {0.5, 0.99}) {
    auto at = static_cast<size_t>(p * (rounds - 1));
    paired times;
    times.add(ours[at], floors[at]);
    out.push_back(times.row(name + (p < 0.9 ? ", p50" : ", p99"), "us",
                            "copying the loads"));
  }
}

int run_bench(const policy_options& x, const common_options& common) {
  return report_on(
    "policies", common, [&](progress_bar&) -> result<bench_report> {
      random_stream chance{1};
      bench_report out{"policies", {}};
      auto paldia = paldia_scope(x, chance);
      if (!paldia)
        return paldia.failure();
      auto models = std::to_string(x.models) + " models";
      add_rows(*paldia,
               "paldia, " + models + ", " + std::to_string(x.kinds) + " kinds",
               x.rounds, out.results);
      auto quart = quart_scope(x, chance);
      if (!quart)
        return quart.failure();
      add_rows(*quart,
               "quart, " + models + ", " + std::to_string(x.stages) + " stages",
               x.rounds, out.results);
      return out;
    });
}

} // namespace

void add_policies_bench(CLI::App& bench, common_options& common,
                        verb_action& run) {
  auto x = std::make_shared<policy_options>();
  auto* verb = bench.add_subcommand(
    "policies", "Time of a scaling policy's decision for many models");
  auto number = [&](const char* name, auto& to, const char* meaning) {
    verb->add_option(name, to, meaning)
      ->transform(whole_number(1, 10'000))
      ->capture_default_str();
  };
  number("--models", x->models, "Models of the scope");
  number("--kinds", x->kinds, "Kinds of devices (paldia)");
  number("--stages", x->stages, "Stages of each pipeline (quart)");
  number("--rounds", x->rounds, "Decisions");
  verb->add_flag("--json", common.json, "Print JSON");
  verb->callback([=, &common, &run] {
    run = [=, &common] { return run_bench(*x, common); };
  });
}

} // namespace millrace
