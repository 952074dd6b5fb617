// SPDX-License-Identifier: Apache-2.0

/// \file
/// A node of the trace becomes a node with a device `cpu`, which has a unit per
/// thousandth of a core and the host's memory, and a device of 1,000 units for
/// each GPU. A pod becomes a group: a pod with GPUs has a replica for each GPU,
/// with the units that the pod uses of one GPU; a pod without GPUs has one
/// replica that uses cores and memory. The trace has neither the memory of GPUs
/// nor its use by pods. Pods of equal size are replicas of one model, which all
/// nodes can fetch. Pods arrive in the order of the file, and do not end.

#include "bench/trace_cluster.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "actors/policies/place/filters.hpp"
#include "actors/policies/registry.hpp"
#include "runtime/text.hpp"
#include "simulator/lines.hpp"

namespace millrace {

namespace {

constexpr uint64_t units_of_gpu = 1000;
constexpr uint64_t mebibyte = 1 << 20;
constexpr size_t rebuilds = 50; ///< pods with a rebuilt index
constexpr double aim_of_one = 20, aim_of_all = 150;

struct trace_pod {
  uint64_t cores = 0, memory = 0, gpus = 0, of_gpu = 0;

  auto size() const { return std::tie(cores, memory, gpus, of_gpu); }
};

/// The numbers in these columns of each line, without the heading.
result<std::vector<std::vector<uint64_t>>>
read_columns(const std::string& path, const std::vector<size_t>& columns) {
  auto lines = read_lines(path);
  if (!lines)
    return lines.failure();
  std::vector<std::vector<uint64_t>> out;
  for (size_t i = 1; i < lines->size(); ++i) {
    auto fields = split((*lines)[i], ',');
    auto& row = out.emplace_back();
    for (auto c : columns) {
      auto x = c < fields.size() ? number_in<uint64_t>(std::string{fields[c]})
                                 : std::nullopt;
      if (!x)
        return error{ec::bad_request,
                     path + ":" + std::to_string(i + 1)
                       + ": expected a whole number in column "
                       + std::to_string(c + 1) + ", found "
                       + shown((*lines)[i]),
                     {}};
      row.push_back(*x);
    }
  }
  if (out.empty())
    return error{ec::bad_request, path + ": has no rows", {}};
  return out;
}

/// The groups of the pods, and the cluster for them.
class trace_cluster {
public:
  trace_cluster(const std::vector<std::vector<uint64_t>>& nodes,
                const std::vector<trace_pod>& pods) {
    for (size_t i = 0; i < nodes.size(); ++i)
      add_node(i, nodes[i][0], nodes[i][1], nodes[i][2]);
    for (auto& pod : pods)
      add_pod(pod);
  }

  const cluster_view& view() const { return view_; }
  const std::vector<replica_group>& groups() const { return groups_; }

  /// Adds a replica of a group to a device.
  void put(const replica_group& x, const device_room& on) {
    replica_status r;
    r.what.model = x.model;
    r.what.version = x.version;
    r.what.layers = x.layers;
    r.what.device = on.device->id;
    r.what.units = x.units;
    r.state = replica_condition::ready;
    view_.nodes.at(on.node->node.name).replicas.push_back(r);
  }

private:
  void add_node(size_t number, uint64_t cores, uint64_t memory, uint64_t gpus) {
    auto name = "node-" + std::to_string(number);
    auto& node = view_.nodes[name];
    node.node.name = name;
    node.fetches = true;
    node.devices.push_back(
      {"cpu0", "cpu", 1, {memory * mebibyte}, {}, false, cores});
    for (uint64_t i = 0; i < gpus; ++i)
      node.devices.push_back(
        {"gpu" + std::to_string(i), "gpu", 1, {}, {}, false, units_of_gpu});
  }

  void add_pod(const trace_pod& pod) {
    using key = std::tuple<uint64_t, uint64_t, uint64_t, uint64_t>;
    auto fresh = sizes_.try_emplace(key{pod.size()}, sizes_.size());
    auto name = "size-" + std::to_string(fresh.first->second);
    auto on_cpu = pod.gpus == 0;
    if (fresh.second) {
      model_info its;
      its.model = name;
      its.version = 1;
      its.bytes = on_cpu ? pod.memory * mebibyte : 1;
      its.layer_bytes = {its.bytes};
      its.content = "content of " + name;
      view_.nodes.begin()->second.models.push_back(its);
    }
    auto& g = groups_.emplace_back();
    g.id = "trace/" + name + "/" + std::to_string(groups_.size());
    g.model = name;
    g.version = 1;
    g.layers = {0, 1};
    g.cut = "whole";
    g.device = on_cpu ? "cpu" : "gpu";
    g.units = on_cpu ? pod.cores : pod.of_gpu;
    g.count = std::max<uint64_t>(1, pod.gpus);
  }

  cluster_view view_;
  std::vector<replica_group> groups_;
  std::map<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t>, size_t> sizes_;
};

/// Places one group as a rollout does: calls the policy, validates its map, and
/// reserves the devices. Returns the number of replicas with a device.
size_t place_one(const placement_policy& policy, const replica_group& x,
                 device_capacity& index, trace_cluster* record = nullptr) {
  std::array wanted{placement_request{&x, 0, x.count}};
  placement_map map;
  {
    capacity_reservation trial{index};
    map = policy.place({}, wanted, trial);
  }
  if (find_fault(map, wanted, index))
    std::abort();
  for (auto& y : map.chosen) {
    index.book(y.device, x);
    if (record != nullptr)
      record->put(x, index[y.device]);
  }
  return map.chosen.size();
}

/// Places all pods with one index; adds the seconds of each pod. Returns the
/// number of replicas with a device.
size_t place_all(const placement_policy& policy, const trace_cluster& cluster,
                 std::vector<double>& times) {
  device_capacity index{cluster.view(), {}};
  size_t placed = 0;
  times.clear();
  for (auto& g : cluster.groups())
    times.push_back(seconds_of([&] { placed += place_one(policy, g, index); }));
  return placed;
}

/// Mean seconds per pod with an index rebuilt for each pod, over evenly spaced
/// pods.
double rebuild_for_some(const placement_policy& policy, trace_cluster cluster) {
  device_capacity kept{cluster.view(), {}};
  auto& all = cluster.groups();
  auto every = std::max<size_t>(1, all.size() / rebuilds);
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % every == 0) {
      ++count;
      sum += seconds_of([&] {
        device_capacity fresh{cluster.view(), {}};
        place_one(policy, all[i], fresh);
      });
    }
    place_one(policy, all[i], kept, &cluster);
  }
  return sum / static_cast<double>(count);
}

void measure_policy(const std::string& name, const placement_policy& policy,
                    const trace_cluster& cluster, int rounds,
                    std::vector<bench_row>& out) {
  paired median_one, slowest_one, all, rebuilt;
  size_t placed = 0, wanted = 0;
  for (auto& g : cluster.groups())
    wanted += g.count;
  for (int i = 0; i < rounds; ++i) {
    std::vector<double> times;
    placed = place_all(policy, cluster, times);
    double sum = 0;
    for (auto x : times)
      sum += x;
    std::sort(times.begin(), times.end());
    median_one.add(1e6 * times[times.size() / 2], aim_of_one);
    slowest_one.add(1e6 * times[times.size() * 99 / 100], aim_of_one);
    all.add(1e3 * sum, aim_of_all);
    auto each = rebuild_for_some(policy, cluster);
    rebuilt.add(1e3 * each * static_cast<double>(times.size()), 1e3 * sum);
  }
  auto pods = std::to_string(cluster.groups().size());
  out.push_back(median_one.row(name + ", one pod, p50", "us", "aim"));
  out.push_back(slowest_one.row(name + ", one pod, p99", "us", "aim"));
  out.push_back(all.row(name + ", " + pods + " pods, " + std::to_string(placed)
                          + " of " + std::to_string(wanted) + " replicas",
                        "ms", "aim"));
  out.push_back(rebuilt.row(name + ", a rebuild per pod, from "
                              + std::to_string(rebuilds) + " pods",
                            "ms", "the kept index"));
}

} // namespace

result<std::vector<bench_row>>
measure_trace_cluster(const std::string& nodes, std::string pods, int rounds) {
  if (pods.empty()) {
    pods = nodes;
    auto at = pods.rfind("nodes");
    if (at == std::string::npos)
      return error{ec::bad_request,
                   nodes + ": expected a name with 'nodes', or --pods",
                   {}};
    pods.replace(at, 5, "pods");
  }
  auto hosts = read_columns(nodes, {1, 2, 3});
  if (!hosts)
    return hosts.failure();
  auto rows = read_columns(pods, {1, 2, 3, 4});
  if (!rows)
    return rows.failure();
  std::vector<trace_pod> demand;
  for (auto& x : *rows)
    demand.push_back({x[0], x[1], x[2], x[3]});
  trace_cluster cluster{*hosts, demand};
  std::vector<bench_row> out;
  for (auto& entry : placement_policies()) {
    auto policy = entry.make({});
    if (!policy)
      return policy.failure();
    measure_policy(entry.name, **policy, cluster, rounds, out);
  }
  return out;
}

} // namespace millrace
