// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/quart.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/policies/predict/variation.hpp"
#include "actors/policies/scale/count_policy.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "actors/policies/state/costs.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// Seconds of the arrival rate for computed delays, as for measured delays of
/// stages.
constexpr size_t recent_seconds = 2;

/// Delay of a station without capacity, as a multiple of its target, at least.
constexpr double saturated_excess = 1.1;

/// A count that was too small is tried again below this part of the load at
/// that time.
constexpr double lower_load = 0.9;

/// The entries of one stage in a memory.
class stage_memory {
public:
  stage_memory(policy_memory& memory, const std::string& model, size_t stage)
    : values_(memory.values),
      prefix_(model + "/" + std::to_string(stage) + "/") {}

  double get(const char* name, double without) const {
    auto i = values_.find(prefix_ + name);
    return i == values_.end() ? without : i->second;
  }
  void set(const char* name, double x) { values_[prefix_ + name] = x; }

private:
  std::map<std::string, double>& values_;
  std::string prefix_;
};

/// Nothing: the stage has had no batch.
const stage_load* load_of(const model_load& x, const replica_group& g,
                          bool whole) {
  auto layers = whole ? layer_range{} : g.layers;
  auto i = std::find_if(x.stages.begin(), x.stages.end(),
                        [&](auto& y) { return y.layers == layers; });
  return i == x.stages.end() || i->batches == 0 ? nullptr : &*i;
}

delay_formula formula_of(quart_delay x) {
  switch (x) {
  case quart_delay::erlang_c:
    return delay_formula::erlang_c;
  case quart_delay::printed:
    return delay_formula::printed;
  case quart_delay::measured:
  case quart_delay::allen_cunneen:
    break;
  }
  return delay_formula::allen_cunneen;
}

} // namespace

struct quart_scaling::decision_on {
  const cluster_snapshot& in;
  const model_state& model;
  const model_load& load;
  policy_memory& memory;
  double now;                        ///< seconds
  double seconds;                    ///< since the last decision
  std::vector<replica_group> groups; ///< one per stage
  std::vector<quart_stage> stages{};
  std::string reason{};

  stage_memory at(size_t stage) {
    return {memory, model.settings.model, stage};
  }
  /// Number of replicas so that each is busy for at most this part of its time.
  uint64_t count_for(double rate, double busy, size_t stage) const {
    auto servers = rate * stages[stage].station.service / busy;
    return static_cast<uint64_t>(std::ceil(servers - 1e-9));
  }
  uint64_t count_min() const {
    return std::max<uint64_t>(1, model.settings.scaling.min);
  }
};

result<std::shared_ptr<const scaling_policy>>
quart_scaling::make(const std::string& scope, const quart_options& options) {
  std::vector<double> targets;
  if (options.targets.empty())
    return std::shared_ptr<const scaling_policy>{
      std::make_shared<quart_scaling>(scope, options, targets)};
  for (auto& text : split(options.targets, ',')) {
    auto target = parse_duration(text);
    if (!target || *target <= 0us)
      return error{ec::bad_request,
                   "targets: expected durations above 0 with commas between"
                   " them, found "
                     + shown(options.targets),
                   {}};
    targets.push_back(to_seconds(*target));
  }
  return std::shared_ptr<const scaling_policy>{
    std::make_shared<quart_scaling>(scope, options, std::move(targets))};
}

/// Sets rates, times and counts of the stages. Returns false when too little is
/// known to change a count.
bool quart_scaling::observe(decision_on& decision) const {
  auto rate = mean_rate(decision.load.seconds, recent_seconds);
  auto known = true;
  for (size_t i = 0; i < decision.groups.size(); ++i) {
    auto& g = decision.groups[i];
    quart_stage out;
    for (auto& there : decision.load.groups)
      if (there.group.id == g.id) {
        out.ready += there.ready;
        out.count = std::max(out.count, there.ready + there.starting);
      }
    auto remembered = decision.at(i).get("count", 0);
    if (remembered > 0)
      out.count = static_cast<uint64_t>(remembered);
    out.count = std::clamp(
      out.count, decision.count_min(),
      std::max(decision.count_min(), decision.model.settings.scaling.max));
    out.wanted = out.count;
    auto& station = out.station;
    station.arrivals = rate;
    station.servers = std::max<uint64_t>(1, out.ready);
    auto* load = load_of(decision.load, g, decision.groups.size() == 1);
    if (load != nullptr && load->batch > 0) {
      station.service = load->run / load->batch;
      station.service_cv = load->run_cv;
      station.waiting = static_cast<uint64_t>(load->queue);
      out.delay = load->wait + load->run;
    } else if (auto cost = slowest_execution(decision.in.costs.get(),
                                             decision.model, g.layers)) {
      station.service = cost->value;
      station.service_cv = 0;
    }
    if (i == 0)
      station.waiting = std::max(station.waiting, decision.load.waiting);
    station.arrival_cv =
      decision.load.arrival_cv > 0 ? decision.load.arrival_cv : 1;
    known = known && station.service > 0;
    out.measured = load != nullptr && load->batches >= options_.samples;
    decision.stages.push_back(out);
  }
  return known;
}

void quart_scaling::set_targets(decision_on& decision) const {
  auto all = std::accumulate(
    decision.stages.begin(), decision.stages.end(), 0.0,
    [](double sum, auto& s) { return sum + s.station.service; });
  auto slo = to_seconds(decision.model.settings.slo) * options_.slo_part;
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    auto& s = decision.stages[i];
    s.target = i < targets_.size() ? targets_[i]
               : slo > 0           ? slo * s.station.service / all
                                   : options_.stretch * s.station.service;
  }
}

void quart_scaling::find_delays(decision_on& decision) const {
  std::vector<queueing_station> stations;
  for (auto& s : decision.stages)
    stations.push_back(s.station);
  auto cvs = predicted_cvs(stations);
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    auto& s = decision.stages[i];
    s.station.arrival_cv = cvs[i];
    s.station.saturated = saturated_excess * s.target;
    auto load = s.station.offered() / static_cast<double>(s.station.servers);
    if (options_.delay != quart_delay::measured || !s.measured)
      s.delay = mean_delay(s.station, formula_of(options_.delay));
    else if (load >= 1)
      s.delay = std::max(s.delay, s.station.saturated);
    s.error =
      std::clamp((s.delay - s.target) / s.target, -1.0, options_.error_max);
  }
}

void quart_scaling::correct(decision_on& decision) const {
  auto max = decision.model.settings.scaling.max;
  auto rate = mean_rate(decision.load.seconds,
                        static_cast<size_t>(to_seconds(options_.window)));
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    auto& s = decision.stages[i];
    auto memory = decision.at(i);
    s.wanted = std::clamp(decision.count_for(rate, options_.busy, i), s.count,
                          std::max(s.count, max));
    s.congested = s.delay > s.target;
    pid_state state{memory.get("integral", 0), memory.get("error", 0)};
    auto starting = s.ready < s.count;
    auto raised = memory.get("raised", decision.now - 1e9);
    s.may_step =
      !starting && decision.now - raised >= to_seconds(options_.settle);
    auto step =
      pid_step({options_.kp, options_.ki, options_.kd}, state, s.error,
               decision.seconds, starting || s.count >= max || !s.congested);
    if (!s.congested)
      state.integral /= 2;
    s.step = static_cast<uint64_t>(std::max(1.0, std::ceil(step)));
    memory.set("integral", state.integral);
    memory.set("error", state.error);
    if (s.congested)
      memory.set("congested", decision.now);
  }
  sizing_limits limits{max, options_.total, to_seconds(options_.drain),
                       formula_of(options_.delay)};
  if (options_.corrector && options_.sizing == quart_sizing::joint)
    size_jointly(decision.stages, limits);
  else if (options_.corrector)
    size_by_error(decision.stages, limits);
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    auto& s = decision.stages[i];
    auto memory = decision.at(i);
    if (s.wanted == s.count)
      continue;
    memory.set("raised", decision.now);
    if (s.congested) {
      memory.set("small", static_cast<double>(s.count));
      memory.set("offered", s.station.offered());
    }
  }
}

void quart_scaling::smooth(decision_on& decision) const {
  if (options_.smoother == quart_smoother::off
      || decision.in.covered < options_.cooldown)
    return;
  auto before = decision.stages;
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    auto& s = decision.stages[i];
    auto memory = decision.at(i);
    auto raised = memory.get("raised", decision.now - 1e9);
    if (s.congested || s.wanted > s.count || s.ready < s.count
        || decision.now - raised < to_seconds(options_.cooldown))
      continue;
    auto rate =
      std::max(s.station.arrivals,
               mean_rate(decision.load.seconds,
                         static_cast<size_t>(to_seconds(options_.window))));
    auto least = std::max(decision.count_min(),
                          decision.count_for(rate, options_.busy, i));
    auto station = s.station;
    station.arrivals = rate;
    if (station.offered() >= lower_load * memory.get("offered", 1e18))
      least =
        std::max(least, static_cast<uint64_t>(memory.get("small", 0)) + 1);
    least = std::max(least, servers_for(station, delay_formula::allen_cunneen,
                                        s.target, s.count));
    if (options_.smoother == quart_smoother::laplace)
      least = std::max(
        least, static_cast<uint64_t>(std::ceil(
                 smoothed_count(before, i, s.station.arrival_cv) - 1e-9)));
    s.wanted = std::min(s.count, least);
  }
}

/// Writes the reason, and marks the key stages.
void quart_scaling::explain(decision_on& decision) const {
  std::string keys;
  for (size_t i = 0; i < decision.stages.size(); ++i) {
    auto& s = decision.stages[i];
    auto quiet =
      decision.now - decision.at(i).get("congested", decision.now - 1e9);
    s.key = quiet == 0 || quiet < to_seconds(options_.quiet);
    auto& g = decision.groups[i];
    if (s.key)
      keys += (keys.empty() ? "" : ", ") + std::to_string(g.layers.first) + "-"
              + std::to_string(g.layers.last) + " (" + format_seconds(s.delay)
              + " of " + format_seconds(s.target) + ")";
  }
  auto rate = decision.stages.front().station.arrivals;
  decision.reason = format_number(std::round(rate * 10) / 10) + " requests/s; "
                    + (keys.empty() ? "no key stage" : "key stages: " + keys);
}

void quart_scaling::decide(decision_on& decision) const {
  if (!observe(decision)) {
    decision.reason = "no load, or an execution time that is not known yet";
  } else {
    set_targets(decision);
    find_delays(decision);
    correct(decision);
    smooth(decision);
    explain(decision);
  }
  for (size_t i = 0; i < decision.stages.size(); ++i)
    decision.at(i).set("count", static_cast<double>(decision.stages[i].wanted));
}

proposal quart_scaling::propose(const cluster_snapshot& snapshot,
                                policy_memory& memory, random_stream&,
                                timestamp now) const {
  static const model_load nothing;
  proposal out;
  auto at = seconds_of(now);
  auto before = memory.values.find("ticked");
  auto seconds = before == memory.values.end() ? 0 : at - before->second;
  for (auto& name : snapshot.scopes.at(scope())->models) {
    auto& model = *snapshot.models.at(name);
    auto groups = configured_groups(model);
    if (groups && model.settings.complete && groups->size() > 1)
      groups = error{ec::bad_request,
                     "complete: policy quart scales parts, which are not to"
                     " become whole (expected complete: false)",
                     {}};
    if (!groups) {
      out.refused[name] = groups.failure().text;
      continue;
    }
    auto load = snapshot.loads.find(name);
    decision_on x{snapshot,
                  model,
                  load == snapshot.loads.end() ? nothing : *load->second,
                  memory,
                  at,
                  seconds,
                  std::move(*groups)};
    decide(x);
    out.reasons[name] = std::move(x.reason);
    for (size_t i = 0; i < x.groups.size(); ++i) {
      auto& s = x.stages[i];
      auto& g = x.groups[i];
      g.count = model.elastic ? s.wanted : 0;
      g.least = std::min(g.count, model.settings.scaling.min);
      out.stages[name].push_back({g.layers, s.delay, s.target, s.key});
      out.groups.push_back(std::move(g));
    }
  }
  memory.values["ticked"] = at;
  end_period(snapshot, memory, now);
  return out;
}

} // namespace millrace
