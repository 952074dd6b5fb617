// SPDX-License-Identifier: Apache-2.0
#include "simulator/summary.hpp"

#include <algorithm>

#include "simulator/samples.hpp"

namespace millrace::simulator {

namespace {

constexpr double hour = 3600;

double ms(microseconds x) {
  return 1e3 * to_seconds(x);
}

/// Adds requests up.
class tally {
public:
  void add(const request_row& x, microseconds slo) {
    ++out_.requests;
    ++out_.statuses[outcome_of(x)];
    if (x.status != ec::ok)
      return;
    auto took = x.ended - x.sent;
    latency_.add(ms(took));
    queue_.add(ms(x.queue));
    in_time_ += took <= slo;
    parts_of_batches_ += 1.0 / std::max(1u, x.batch);
  }

  served_summary take(std::string model, double seconds) {
    out_.model = std::move(model);
    auto n = static_cast<double>(in_time_);
    out_.goodput = n / seconds;
    if (out_.requests > 0)
      out_.slo_violations = 1 - n / static_cast<double>(out_.requests);
    out_.p50_ms = latency_.quantile(.5);
    out_.p90_ms = latency_.quantile(.9);
    out_.p99_ms = latency_.quantile(.99);
    out_.p999_ms = latency_.quantile(.999);
    out_.max_ms = latency_.quantile(1);
    out_.queue_p50_ms = queue_.quantile(.5);
    out_.queue_p99_ms = queue_.quantile(.99);
    if (parts_of_batches_ > 0)
      out_.batch = static_cast<double>(latency_.size()) / parts_of_batches_;
    return std::move(out_);
  }

private:
  served_summary out_;
  samples latency_, queue_;
  uint64_t in_time_ = 0;
  double parts_of_batches_ = 0;
};

/// How long [from, to) lasts within the workload.
double within(microseconds from, microseconds to, microseconds length) {
  auto begin = std::clamp(from, microseconds{0}, length);
  auto end = std::clamp(to, microseconds{0}, length);
  return std::max(0.0, to_seconds(end - begin));
}

void add_devices(const loaded_scenario& what, const record& run,
                 run_summary& out) {
  for (auto& x : run.replicas) {
    if (!x.ready) {
      ++out.failed_starts;
      continue;
    }
    ++out.cold_starts[x.source];
    out.replica_seconds +=
      within(*x.ready, x.ended.value_or(run.length), run.length);
  }
  for (auto& [node, time] : run.reserved) {
    auto& config = what.cluster.nodes.at(node);
    out.device_seconds +=
      to_seconds(time) * static_cast<double>(config.devices.size());
    auto price = what.price.find(node);
    if (price != what.price.end())
      out.cost += to_seconds(time) / hour * price->second;
  }
  // Batches that overlap on one device make it no busier.
  std::map<uint32_t, std::vector<const batch_row*>> by_device;
  for (auto& x : run.batches)
    by_device[x.device].push_back(&x);
  double busy = 0;
  for (auto& [device, batches] : by_device) {
    std::sort(batches.begin(), batches.end(),
              [](auto* a, auto* b) { return a->started < b->started; });
    auto until = microseconds{0};
    for (auto* x : batches) {
      busy += within(std::max(until, x->started), x->ended, run.length);
      until = std::max(until, x->ended);
    }
  }
  if (out.device_seconds > 0)
    out.utilisation = busy / out.device_seconds;
}

} // namespace

microseconds slo_of(const loaded_scenario& what, const record& run,
                    const request_row& x) {
  auto& part = what.spec.workload[x.part];
  if (part.slo > 0us)
    return part.slo;
  if (part.deadline > 0us)
    return part.deadline;
  for (auto& m : what.spec.models)
    if (m.model == run.names[x.model])
      return m.policy.deadline;
  return serving_policy{}.deadline;
}

run_summary summarise(const loaded_scenario& what, uint64_t seed,
                      const record& run) {
  run_summary out;
  out.scenario = what.spec.name;
  out.seed = seed;
  out.seconds = to_seconds(run.length);
  tally all;
  std::map<uint32_t, tally> by_model;
  for (auto& x : run.requests) {
    auto slo = slo_of(what, run, x);
    all.add(x, slo);
    by_model[x.model].add(x, slo);
  }
  out.all = all.take("", out.seconds);
  for (auto& [model, x] : by_model)
    out.models.push_back(x.take(run.names[model], out.seconds));
  std::sort(out.models.begin(), out.models.end(),
            [](auto& a, auto& b) { return a.model < b.model; });
  add_devices(what, run, out);
  for (auto& m : what.spec.models)
    if (m.replicas > 0
        && std::none_of(run.replicas.begin(), run.replicas.end(), [&](auto& r) {
             return r.ready && run.names[r.model] == m.model;
           }))
      out.never_ready.push_back(m.model);
  out.faults = run.faults;
  out.errors = run.errors;
  return out;
}

} // namespace millrace::simulator
