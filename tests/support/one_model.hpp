// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <vector>

#include "actors/policies/registry.hpp"
#include "actors/policies/state/scopes.hpp"

namespace millrace::test {

/// A cluster state with load on one model, and a policy that decides once per
/// second.
struct one_model {
  explicit one_model(const std::string& policy, option_texts options = {}) {
    settings.model = "m";
    settings.scaling.policy = policy;
    settings.scaling.options = std::move(options);
    settings.scaling.max = 8;
    snapshot.covered = 1h;
  }

  proposal ask() {
    scope_state scope{settings_of_scope("model/m", {}, settings), {"m"}};
    model_info bundle;
    bundle.model = "m";
    bundle.layer_bytes.assign(16, 1 << 20);
    bundle.bytes = 16 << 20;
    snapshot.models["m"] = std::make_shared<const model_state>(
      model_state{settings, "model/m", 1, bundle, true});
    snapshot.scopes["model/m"] = std::make_shared<const scope_state>(scope);
    snapshot.loads["m"] = std::make_shared<const model_load>(load);
    auto made = make_scaling_policy("model/m", scope.settings);
    REQUIRE(made);
    auto out = (*made)->propose(snapshot, memory, random, now);
    due = (*made)->next_due(memory, now);
    return out;
  }

  /// The replica counts in `n` consecutive seconds.
  std::vector<uint64_t> counts(int n) {
    std::vector<uint64_t> out;
    for (int i = 0; i < n; ++i) {
      auto x = ask();
      REQUIRE(x.groups.size() == 1);
      out.push_back(x.groups[0].count);
      now += 1s;
    }
    return out;
  }

  void set_rate(double per_second) {
    load.rate = per_second;
    load.seconds.assign(60, per_second);
    load.service = 0.015;
  }

  model_settings settings;
  model_load load;
  cluster_snapshot snapshot;
  policy_memory memory;
  random_stream random{1};
  timestamp now{1h}, due;
};

} // namespace millrace::test
