// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/quart.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/policies/predict/variation.hpp"
#include "actors/policies/scale/configured_groups.hpp"
#include "actors/policies/scale/count_policy.hpp"
#include "actors/policies/state/costs.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// The rate of arrivals that delays are computed for is of these seconds, as
/// the delays of stages are.
constexpr size_t recent_seconds = 2;

/// A station without capacity has at least this many times its target as delay.
constexpr double saturated_excess = 1.1;

/// At this part of the load at which a count was too small it may do again.
constexpr double lower_load = 0.9;

/// One stage's entries in a memory.
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

/// Nothing: no batch has passed the stage.
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
  /// Replicas that are busy for at most this part of their time, by a rate of
  /// arrivals.
  uint64_t count_for(double rate, double busy, size_t stage) const {
    auto servers = rate * stages[stage].station.service / busy;
    return static_cast<uint64_t>(std::ceil(servers - 1e-9));
  }
  uint64_t count_min() const {
    return std::max<uint64_t>(1, model.settings.scaling.min);
  }
};

result<std::shared_ptr<const scaling_policy>>
quart_scaling::make(const std::string& scope, const quart_options& x) {
  std::vector<double> targets;
  if (x.targets.empty())
    return std::shared_ptr<const scaling_policy>{
      std::make_shared<quart_scaling>(scope, x, targets)};
  for (auto& text : split(x.targets, ',')) {
    auto target = parse_duration(text);
    if (!target || *target <= 0us)
      return error{ec::bad_request,
                   "targets: expected durations above 0 with commas between"
                   " them, found "
                     + shown(x.targets),
                   {}};
    targets.push_back(to_seconds(*target));
  }
  return std::shared_ptr<const scaling_policy>{
    std::make_shared<quart_scaling>(scope, x, std::move(targets))};
}

/// Rates, times and counts of the stages. False while too little is known to
/// change a count.
bool quart_scaling::observe(decision_on& x) const {
  auto rate = mean_rate(x.load.seconds, recent_seconds);
  auto known = true;
  for (size_t i = 0; i < x.groups.size(); ++i) {
    auto& g = x.groups[i];
    quart_stage out;
    for (auto& there : x.load.groups)
      if (there.group.id == g.id) {
        out.ready += there.ready;
        out.count = std::max(out.count, there.ready + there.starting);
      }
    auto remembered = x.at(i).get("count", 0);
    if (remembered > 0)
      out.count = static_cast<uint64_t>(remembered);
    out.count =
      std::clamp(out.count, x.count_min(),
                 std::max(x.count_min(), x.model.settings.scaling.max));
    out.wanted = out.count;
    auto& station = out.station;
    station.arrivals = rate;
    station.servers = std::max<uint64_t>(1, out.ready);
    auto* load = load_of(x.load, g, x.groups.size() == 1);
    if (load != nullptr && load->batch > 0) {
      station.service = load->run / load->batch;
      station.service_cv = load->run_cv;
      station.waiting = static_cast<uint64_t>(load->queue);
      out.delay = load->wait + load->run;
    } else if (auto cost =
                 slowest_execution(x.in.costs.get(), x.model, g.layers)) {
      station.service = cost->value;
      station.service_cv = 0;
    }
    if (i == 0)
      station.waiting = std::max(station.waiting, x.load.waiting);
    station.arrival_cv = x.load.arrival_cv > 0 ? x.load.arrival_cv : 1;
    known = known && station.service > 0;
    out.measured = load != nullptr && load->batches >= options_.samples;
    x.stages.push_back(out);
  }
  return known;
}

void quart_scaling::set_targets(decision_on& x) const {
  auto all = std::accumulate(
    x.stages.begin(), x.stages.end(), 0.0,
    [](double sum, auto& s) { return sum + s.station.service; });
  auto slo = to_seconds(x.model.settings.slo) * options_.slo_part;
  for (size_t i = 0; i < x.stages.size(); ++i) {
    auto& s = x.stages[i];
    s.target = i < targets_.size() ? targets_[i]
               : slo > 0           ? slo * s.station.service / all
                                   : options_.stretch * s.station.service;
  }
}

void quart_scaling::find_delays(decision_on& x) const {
  std::vector<queueing_station> stations;
  for (auto& s : x.stages)
    stations.push_back(s.station);
  auto cvs = predicted_cvs(stations);
  for (size_t i = 0; i < x.stages.size(); ++i) {
    auto& s = x.stages[i];
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

void quart_scaling::correct(decision_on& x) const {
  auto max = x.model.settings.scaling.max;
  auto rate =
    mean_rate(x.load.seconds, static_cast<size_t>(to_seconds(options_.window)));
  for (size_t i = 0; i < x.stages.size(); ++i) {
    auto& s = x.stages[i];
    auto memory = x.at(i);
    s.wanted = std::clamp(x.count_for(rate, options_.busy, i), s.count,
                          std::max(s.count, max));
    s.congested = s.delay > s.target;
    pid_state state{memory.get("integral", 0), memory.get("error", 0)};
    auto starting = s.ready < s.count;
    auto raised = memory.get("raised", x.now - 1e9);
    s.may_step = !starting && x.now - raised >= to_seconds(options_.settle);
    auto step =
      pid_step({options_.kp, options_.ki, options_.kd}, state, s.error,
               x.seconds, starting || s.count >= max || !s.congested);
    if (!s.congested)
      state.integral /= 2;
    s.step = static_cast<uint64_t>(std::max(1.0, std::ceil(step)));
    memory.set("integral", state.integral);
    memory.set("error", state.error);
    if (s.congested)
      memory.set("congested", x.now);
  }
  sizing_limits limits{max, options_.total, to_seconds(options_.drain),
                       formula_of(options_.delay)};
  if (options_.corrector && options_.sizing == quart_sizing::joint)
    size_jointly(x.stages, limits);
  else if (options_.corrector)
    size_by_error(x.stages, limits);
  for (size_t i = 0; i < x.stages.size(); ++i) {
    auto& s = x.stages[i];
    auto memory = x.at(i);
    if (s.wanted == s.count)
      continue;
    memory.set("raised", x.now);
    if (s.congested) {
      memory.set("small", static_cast<double>(s.count));
      memory.set("offered", s.station.offered());
    }
  }
}

void quart_scaling::smooth(decision_on& x) const {
  if (options_.smoother == quart_smoother::off
      || x.in.covered < options_.cooldown)
    return;
  auto before = x.stages;
  for (size_t i = 0; i < x.stages.size(); ++i) {
    auto& s = x.stages[i];
    auto memory = x.at(i);
    auto raised = memory.get("raised", x.now - 1e9);
    if (s.congested || s.wanted > s.count || s.ready < s.count
        || x.now - raised < to_seconds(options_.cooldown))
      continue;
    auto rate =
      std::max(s.station.arrivals,
               mean_rate(x.load.seconds,
                         static_cast<size_t>(to_seconds(options_.window))));
    auto least = std::max(x.count_min(), x.count_for(rate, options_.busy, i));
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

/// The text of the reason, and which stages are key.
void quart_scaling::explain(decision_on& x) const {
  std::string keys;
  for (size_t i = 0; i < x.stages.size(); ++i) {
    auto& s = x.stages[i];
    auto quiet = x.now - x.at(i).get("congested", x.now - 1e9);
    s.key = quiet == 0 || quiet < to_seconds(options_.quiet);
    auto& g = x.groups[i];
    if (s.key)
      keys += (keys.empty() ? "" : ", ") + std::to_string(g.layers.first) + "-"
              + std::to_string(g.layers.last) + " (" + format_seconds(s.delay)
              + " of " + format_seconds(s.target) + ")";
  }
  auto rate = x.stages.front().station.arrivals;
  x.reason = format_number(std::round(rate * 10) / 10) + " requests/s; "
             + (keys.empty() ? "no key stage" : "key stages: " + keys);
}

void quart_scaling::decide(decision_on& x) const {
  if (!observe(x)) {
    x.reason = "no load, or an execution time that is not known yet";
  } else {
    set_targets(x);
    find_delays(x);
    correct(x);
    smooth(x);
    explain(x);
  }
  for (size_t i = 0; i < x.stages.size(); ++i)
    x.at(i).set("count", static_cast<double>(x.stages[i].wanted));
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
