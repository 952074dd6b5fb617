// SPDX-License-Identifier: Apache-2.0
#include "simulator/summary.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "simulator/samples.hpp"

namespace millrace::simulator {

namespace {

double ms(microseconds x) {
  return 1e3 * to_seconds(x);
}

/// Multiples of the SLO for which goodput is computed.
constexpr std::array slo_times{std::pair{"1", 1.0}, std::pair{"1.5", 1.5},
                               std::pair{"2", 2.0}, std::pair{"3", 3.0}};

latency_summary summary_of(samples& latencies) {
  latency_summary out;
  out.requests = latencies.size();
  out.mean_ms = latencies.mean();
  out.p50_ms = latencies.quantile(.5);
  out.p75_ms = latencies.quantile(.75);
  out.p90_ms = latencies.quantile(.9);
  out.p95_ms = latencies.quantile(.95);
  out.p99_ms = latencies.quantile(.99);
  out.p999_ms = latencies.quantile(.999);
  out.max_ms = latencies.quantile(1);
  return out;
}

/// Sums up requests.
class tally {
public:
  /// `end`: the end of the run.
  void add(const request_row& x, microseconds slo, microseconds end) {
    ++out_.requests;
    ++out_.statuses[outcome_of(x)];
    latency_.add(ms((x.status ? x.ended : end) - x.sent));
    if (x.status != ec::ok)
      return;
    auto took = x.ended - x.sent;
    latency_ok_.add(ms(took));
    queue_.add(ms(x.queue));
    for (size_t i = 0; i < slo_times.size(); ++i)
      in_time_[i] += static_cast<double>(took.count())
                     <= slo_times[i].second * static_cast<double>(slo.count());
    parts_of_batches_ += 1.0 / std::max(1u, x.batch);
  }

  served_summary take(std::string model, double seconds) {
    out_.model = std::move(model);
    for (size_t i = 0; i < slo_times.size(); ++i)
      out_.goodput_at_slo_times[slo_times[i].first] =
        static_cast<double>(in_time_[i]) / seconds;
    auto n = static_cast<double>(in_time_[0]);
    out_.goodput = n / seconds;
    if (out_.requests > 0)
      out_.slo_violations = 1 - n / static_cast<double>(out_.requests);
    out_.latency = summary_of(latency_);
    out_.latency_ok = summary_of(latency_ok_);
    out_.queue_p50_ms = queue_.quantile(.5);
    out_.queue_p99_ms = queue_.quantile(.99);
    if (parts_of_batches_ > 0)
      out_.batch = static_cast<double>(latency_ok_.size()) / parts_of_batches_;
    return std::move(out_);
  }

private:
  served_summary out_;
  samples latency_, latency_ok_, queue_;
  std::array<uint64_t, slo_times.size()> in_time_{};
  double parts_of_batches_ = 0;
};

/// The seconds of [from, to) within the workload.
double within(microseconds from, microseconds to, microseconds length) {
  auto begin = std::clamp(from, microseconds{0}, length);
  auto end = std::clamp(to, microseconds{0}, length);
  return std::max(0.0, to_seconds(end - begin));
}

using interval = std::pair<microseconds, microseconds>;

/// Seconds of the workload within at least one of the intervals.
double covered(std::vector<interval> all, microseconds length) {
  std::sort(all.begin(), all.end());
  double out = 0;
  auto until = microseconds{0};
  for (auto& [from, to] : all) {
    out += within(std::max(until, from), to, length);
    until = std::max(until, to);
  }
  return out;
}

interval reserved_time(const replica_row& x, const record& run) {
  return {x.decided.value_or(x.begun), x.ended.value_or(run.length)};
}

void add_replicas(const record& run, run_summary& out) {
  struct steps {
    samples fetch, until_load, load, whole;
  };
  std::map<std::string, steps> by_source;
  for (auto& x : run.replicas) {
    auto [from, to] = reserved_time(x, run);
    out.reserved_replica_seconds += within(from, to, run.length);
    if (!x.ready) {
      out.failed_starts += !x.starts();
      continue;
    }
    ++out.cold_starts[x.source];
    out.replica_seconds +=
      within(*x.ready, x.ended.value_or(run.length), run.length);
    if (!x.decided)
      continue;
    auto& start = by_source[x.source];
    start.fetch.add(to_seconds(x.fetch));
    start.until_load.add(to_seconds(x.begun - *x.decided));
    start.load.add(to_seconds(*x.ready - x.begun));
    start.whole.add(to_seconds(*x.ready - *x.decided));
  }
  for (auto& [source, x] : by_source)
    out.starts.push_back({source, x.whole.size(), x.fetch.mean(),
                          x.until_load.mean(), x.load.mean(), x.whole.mean(),
                          x.whole.quantile(.5), x.whole.quantile(.99),
                          x.whole.quantile(1)});
  std::map<size_t, std::vector<interval>> batches;
  for (auto& x : run.batches)
    if (x.replica > 0)
      batches[x.replica].emplace_back(x.started, x.ended);
  for (auto& [replica, x] : batches)
    out.busy_replica_seconds += covered(std::move(x), run.length);
}

void add_devices(const loaded_scenario& what, const record& run,
                 run_summary& out) {
  auto kinds = device_kinds(what);
  std::map<std::string, device_summary> by_kind;
  std::map<std::string, std::vector<interval>> batches, replicas;
  for (auto& x : run.batches)
    batches[run.names[x.device]].emplace_back(x.started, x.ended);
  for (auto& x : run.replicas)
    replicas[run.names[x.device]].push_back(reserved_time(x, run));
  double busy = 0;
  for (auto& [device, kind] : kinds) {
    auto& use = by_kind[kind];
    use.kind = kind;
    ++use.devices;
    auto up = run.reserved.find(device.substr(0, device.find('/')));
    if (up != run.reserved.end())
      use.available_seconds += to_seconds(up->second);
    use.reserved_seconds += covered(replicas[device], run.length);
    // Overlapping batches on a device are counted once.
    auto worked = covered(batches[device], run.length);
    use.busy_seconds += worked;
    busy += worked;
  }
  for (auto& [kind, use] : by_kind) {
    if (use.available_seconds > 0)
      use.utilisation = use.busy_seconds / use.available_seconds;
    out.device_seconds += use.available_seconds;
    out.devices.push_back(use);
  }
  if (out.device_seconds > 0)
    out.utilisation = busy / out.device_seconds;
  out.pools = bills_of(what, run.leases, run.length);
  for (auto& x : out.pools) {
    out.cost += x.cost_reserved;
    out.cost_used += x.cost_used;
  }
}

} // namespace

std::map<std::string, std::string> device_kinds(const loaded_scenario& what) {
  std::map<std::string, std::string> out;
  for (auto& [node, config] : what.cluster.nodes)
    for (auto& x : config.devices)
      out[to_string(device_name{node, x.id})] =
        x.kind.empty() ? std::string{to_string(x.type)} : x.kind;
  return out;
}

microseconds slo_of(const loaded_scenario& what, const record& run,
                    const request_row& row) {
  auto& part = what.spec.workload[row.part];
  if (part.slo > 0us)
    return part.slo;
  if (part.deadline > 0us)
    return part.deadline;
  for (auto& m : what.spec.models)
    if (m.model == run.names[row.model])
      return m.policy.deadline;
  return serving_policy{}.deadline;
}

std::vector<link_summary> busiest_links(const std::vector<link_use>& all) {
  constexpr size_t links_shown = 10;
  std::vector<link_summary> out;
  for (auto& x : all)
    if (x.bytes > 0 && x.room > 0)
      out.push_back({x.name, x.bytes, std::min(1.0, x.bytes / x.room)});
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) {
    return std::tie(b.utilisation, a.link) < std::tie(a.utilisation, b.link);
  });
  if (out.size() > links_shown)
    out.resize(links_shown);
  return out;
}

run_summary summarise(const loaded_scenario& what, uint64_t seed,
                      const record& run) {
  run_summary out;
  out.scenario = what.spec.name;
  out.seed = seed;
  out.seconds = to_seconds(run.length);
  auto end = run.length;
  for (auto& x : run.requests)
    end = std::max(end, x.ended);
  out.end_seconds = to_seconds(end);
  tally all;
  std::map<uint32_t, tally> by_model;
  for (auto& x : run.requests) {
    auto slo = slo_of(what, run, x);
    all.add(x, slo, end);
    by_model[x.model].add(x, slo, end);
  }
  out.all = all.take("", out.seconds);
  out.all_ok = out.all.latency_ok.requests == out.all.requests;
  for (auto& [model, x] : by_model)
    out.models.push_back(x.take(run.names[model], out.seconds));
  std::sort(out.models.begin(), out.models.end(),
            [](auto& a, auto& b) { return a.model < b.model; });
  add_replicas(run, out);
  add_devices(what, run, out);
  for (auto& m : what.spec.models)
    if (m.replicas > 0
        && std::none_of(run.replicas.begin(), run.replicas.end(), [&](auto& r) {
             return r.ready && run.names[r.model] == m.model;
           }))
      out.never_ready.push_back(m.model);
  out.store_bytes = run.store_bytes;
  out.links = busiest_links(run.links);
  out.faults = run.faults;
  out.errors = run.errors;
  return out;
}

} // namespace millrace::simulator
