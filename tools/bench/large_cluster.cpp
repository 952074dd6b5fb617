// SPDX-License-Identifier: Apache-2.0

/// \file
/// The control loop of a large cluster: 1,213 nodes with 6,212 devices, as in
/// Alibaba's GPU trace of 2023, and 1,000 models.

#include "bench/large_cluster.hpp"

#include <algorithm>

#include "actors/policies/registry.hpp"
#include "actors/policies/state/deltas.hpp"
#include "actors/policies/state/snapshot_builder.hpp"
#include "transport/codec.hpp"
#include "transport/messages/cluster.hpp"

namespace millrace {

namespace {

constexpr size_t node_count = 1213;
constexpr size_t device_count = 6212;
constexpr size_t model_count = 1000;
constexpr size_t bundles_per_node = 10;
constexpr size_t changed_nodes = node_count / 10;
constexpr size_t changed_models = model_count / 10;
constexpr size_t gateways = 1;
constexpr auto period = 250ms;

std::string model_name(size_t i) {
  return "model-" + std::to_string(i % model_count);
}

model_settings settings_of(size_t i) {
  model_settings out;
  out.model = model_name(i);
  out.scaling.policy = "arrival_rate";
  out.scaling.max = 100;
  return out;
}

replica_status replica_of(size_t device, const std::string& node) {
  replica_status out;
  auto& what = out.what;
  what.model = model_name(device);
  what.replica = what.model + ".1." + std::to_string(device);
  what.version = 1;
  what.layers = {0, 16};
  what.node = node;
  what.device = "gpu" + std::to_string(device / node_count);
  what.group.id = "model/" + what.model + "/" + what.model + "/whole";
  what.group.scope = "model/" + what.model;
  what.group.cut = "whole";
  out.state = replica_condition::ready;
  out.memory = 1u << 30;
  return out;
}

node_state node_of(size_t n) {
  node_state out;
  out.node.name = "node-" + std::to_string(n);
  out.node.roles = {"worker"};
  if (n < gateways)
    out.node.roles.push_back("gateway");
  for (auto d = n; d < device_count; d += node_count) {
    device_info device;
    device.id = "gpu" + std::to_string(d / node_count);
    device.kind = "v100";
    out.devices.push_back(device);
    out.replicas.push_back(replica_of(d, out.node.name));
  }
  for (size_t i = 0; i < bundles_per_node; ++i) {
    model_info info;
    info.model = model_name(n + i);
    info.version = 1;
    info.bytes = 1u << 30;
    info.layer_bytes.assign(16, 1u << 26);
    info.content = std::string(64, 'c');
    out.models.push_back(info);
  }
  return out;
}

/// Reports of a gateway; some models have 50 requests each.
class reports {
public:
  demand_report next(size_t first, size_t count, timestamp now) {
    demand_report out;
    out.node = "node-0";
    out.incarnation = out.life = 1;
    out.sequence = ++sequence_;
    out.end = to_us(now.time_since_epoch());
    for (auto i = first; i < first + count; ++i) {
      auto& x = counters_[i % model_count];
      x.model = model_name(i);
      x.arrived += 50;
      x.ok += 50;
      x.within += 50;
      x.executed += 50;
      x.device_seconds += 50 * 0.01;
      out.models.push_back(x);
    }
    return out;
  }

private:
  uint64_t sequence_ = 0;
  std::vector<model_counters> counters_{model_count};
};

class large_cluster {
public:
  large_cluster() : builder_(1, period, timestamp{}) {
    registered intent;
    for (size_t i = 0; i < model_count; ++i)
      intent.models.push_back(settings_of(i));
    builder_.set_intent(intent);
    std::map<std::string, std::shared_ptr<const node_state>> nodes;
    for (size_t n = 0; n < node_count; ++n) {
      auto x = node_of(n);
      nodes[x.node.name] = std::make_shared<const node_state>(std::move(x));
    }
    builder_.set_nodes(nodes, now_);
    for (int i = 0; i < 80; ++i) // until every policy has a full window
      report(0, model_count);
    builder_.take(now_);
  }

  /// Prepares changes of a tenth of all nodes and models.
  void change_some(size_t round) {
    changes_.clear();
    for (size_t i = 0; i < changed_nodes; ++i) {
      auto x = node_of((round * changed_nodes + i) % node_count);
      for (auto& r : x.replicas)
        r.memory += round;
      x.replicas.front().state =
        round % 2 == 0 ? replica_condition::ready : replica_condition::starting;
      changes_[x.node.name] = std::make_shared<const node_state>(std::move(x));
    }
    now_ += period;
    report_ = reports_.next(round * changed_models, changed_models, now_);
  }

  std::shared_ptr<const cluster_snapshot> publish() {
    builder_.set_nodes(changes_, now_);
    builder_.add(report_, now_);
    return builder_.take(now_);
  }

  void report(size_t first, size_t count, nanoseconds after = period) {
    now_ += after;
    builder_.add(reports_.next(first, count, now_), now_);
  }

  std::shared_ptr<const cluster_snapshot> take() { return builder_.take(now_); }
  timestamp now() const { return now_; }

private:
  snapshot_builder builder_;
  reports reports_;
  timestamp now_{};
  std::map<std::string, std::shared_ptr<const node_state>> changes_;
  demand_report report_;
};

/// Decisions of policy arrival_rate, one scope for each model.
class deciders {
public:
  deciders() {
    for (size_t i = 0; i < model_count; ++i) {
      auto x = settings_of(i);
      scope_settings settings;
      settings.policy = x.scaling.policy;
      all_.push_back({*make_scaling_policy("model/" + x.model, settings), {}});
    }
  }

  size_t run(const cluster_snapshot& in, timestamp now) {
    size_t groups = 0;
    for (auto& [policy, memory] : all_) {
      random_stream random{1};
      groups += policy->propose(in, memory, random, now).groups.size();
    }
    return groups;
  }

private:
  std::vector<std::pair<std::shared_ptr<const scaling_policy>, policy_memory>>
    all_;
};

/// The floor of a policy: finds each model, and reads its rates.
double read_loads(const cluster_snapshot& in) {
  double out = 0;
  for (size_t i = 0; i < model_count; ++i) {
    auto load = in.loads.find(model_name(i));
    if (load != in.loads.end())
      for (auto x : load->second->seconds)
        out += x;
  }
  return out;
}

double packed_size(const snapshot_delta& x) {
  encoder out{timestamp{}, nullptr};
  out.put(x);
  return static_cast<double>(out.take_body().view().size());
}

} // namespace

std::vector<bench_row> measure_large_cluster(int rounds) {
  large_cluster cluster;
  deciders policies;
  paired publish, decide, delta;
  double sum = 0;
  for (int i = 0; i < rounds; ++i) {
    auto round = static_cast<size_t>(i);
    cluster.change_some(round);
    std::shared_ptr<const cluster_snapshot> now;
    auto ours = seconds_of([&] { now = cluster.publish(); });
    auto floor = seconds_of([&] {
      auto copy = std::make_shared<const cluster_snapshot>(*now);
      sum += static_cast<double>(copy->nodes.size());
    });
    publish.add(1e3 * ours, 1e3 * floor);
    auto decided = seconds_of(
      [&] { sum += static_cast<double>(policies.run(*now, cluster.now())); });
    auto read = seconds_of([&] { sum += read_loads(*now); });
    decide.add(1e3 * decided, 1e3 * read);
    // At the same clock time, so that the other models' rates do not change.
    cluster.report(round, 20, 1us);
    auto next = cluster.take();
    delta.add(packed_size(difference(now.get(), *next)) / 1024, 64);
  }
  if (!(sum > 0))
    std::abort();
  return {publish.row("snapshot, 10 % of its parts new", "ms",
                      "copying its maps of pointers"),
          decide.row("arrival_rate, 1000 models", "ms", "reading their rates"),
          delta.row("delta of 20 models", "KiB", "64 KiB")};
}

} // namespace millrace
