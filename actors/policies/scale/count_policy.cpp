// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/scale/count_policy.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "actors/policies/parts/growing_groups.hpp"
#include "actors/policies/state/configured_groups.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

/// The entries of one model in a memory.
class entries {
public:
  entries(policy_memory& memory, const std::string& model)
    : values_(memory.values),
      prefix_(model + "/") {}

  bool has(const char* name) const { return values_.contains(prefix_ + name); }
  double& operator[](const char* name) { return values_[prefix_ + name]; }
  void erase(const char* name) { values_.erase(prefix_ + name); }

  /// Returns for how many seconds the condition has held; the time starts now
  /// if the condition did not hold before.
  double since(const char* name, bool holds, double now) {
    if (!holds)
      return erase(name), 0;
    return now - values_.try_emplace(prefix_ + name, now).first->second;
  }

private:
  std::map<std::string, double>& values_;
  std::string prefix_;
};

bool is_cut_anew(const model_state& x) {
  return x.settings.scaling.parts == growth::automatic && x.version != 0;
}

uint64_t count_there(const model_state& x, const model_load& load) {
  return is_cut_anew(x) ? devices_there(load) : copies_there(load);
}

} // namespace

double mean_rate(const std::vector<double>& seconds, size_t n) {
  n = std::min(n, seconds.size());
  auto end = seconds.begin() + static_cast<long>(n);
  return n == 0 ? 0
                : std::accumulate(seconds.begin(), end, 0.0)
                    / static_cast<double>(n);
}

/// Whether all gateways have reported no request for the idle time.
bool count_policy::is_idle(const model_load& load,
                           const cluster_snapshot& in) const {
  return load.waiting == 0 && !load.pressure && in.covered >= pace_.idle
         && (load.last_arrival < 0us
             || in.counted - load.last_arrival >= pace_.idle);
}

/// Returns the condition that still delays a change, for the reason text.
std::string count_policy::what_holds(double wanted_for, microseconds delay,
                                     bool covered) const {
  if (!covered)
    return "every gateway has reported for " + format_duration(pace_.window);
  if (wanted_for < to_seconds(delay))
    return "wanted for " + format_duration(delay);
  return "the cooldown is over";
}

uint64_t count_policy::decide(const model_state& model, const model_load& load,
                              const cluster_snapshot& in, policy_memory& memory,
                              timestamp now, std::string& reason) const {
  auto& limits = model.settings.scaling;
  entries known{memory, model.settings.model};
  auto before = known.has("count") ? static_cast<uint64_t>(known["count"])
                                   : count_there(model, load);
  // A new controller discovers the running replicas node by node.
  if (in.covered < pace_.window)
    before = std::max(before, count_there(model, load));
  auto found = wanted(model, load, in, before);
  reason = found.reason;
  auto asked =
    std::isfinite(found.replicas) && found.replicas > 0
      ? static_cast<uint64_t>(std::ceil(std::min(found.replicas, 1e9) - 1e-9))
      : 0;
  auto keep_one = [&](bool holds, const std::string& why) {
    if (asked > 0 || !holds)
      return;
    asked = 1;
    reason = why;
  };
  keep_one(load.pressure || load.waiting > 0, "requests wait");
  keep_one(before > 0 && !is_idle(load, in),
           reason + ", idle after " + format_duration(pace_.idle));
  auto limited = std::clamp(asked, limits.min, limits.max);
  auto count = std::clamp(before, limits.min, limits.max);
  auto at = seconds_of(now);
  auto up = known.since("up_since", limited > count, at);
  auto down = known.since("down_since", limited < count, at);
  auto may_turn = [&](double direction) {
    return !known.has("changed") || known["direction"] == direction
           || at - known["changed"] >= to_seconds(pace_.cooldown);
  };
  // A model without replicas gets one at once. A lower count is accepted only
  // when every gateway has reported for the whole window of the policy.
  auto rises =
    limited > count
    && (count == 0 || (up >= to_seconds(pace_.up_after) && may_turn(1)));
  auto falls = limited < count && in.covered >= pace_.window
               && down >= to_seconds(pace_.down_after) && may_turn(-1);
  if (limited != count && !rises && !falls)
    reason += "; " + std::to_string(limited) + " replicas, once "
              + (limited > count ? what_holds(up, pace_.up_after, true)
                                 : what_holds(down, pace_.down_after,
                                              in.covered >= pace_.window));
  if (rises || falls) {
    known["changed"] = at;
    known["direction"] = rises ? 1 : -1;
    known.erase("up_since");
    known.erase("down_since");
    count = limited;
  }
  if (limited != asked)
    reason += limited < asked ? "; max is " + std::to_string(limits.max)
                              : "; min is " + std::to_string(limits.min);
  known["count"] = static_cast<double>(count);
  return count;
}

result<std::vector<replica_group>>
count_policy::groups_of(const model_state& model, const model_load& load,
                        const cluster_snapshot& in, uint64_t count,
                        policy_memory& memory, std::string& reason) const {
  if (is_cut_anew(model))
    return growing_groups(model, load, in, count, pace_.plan, planners_, memory,
                          reason);
  auto out = configured_groups(cut_by(pace_.cuts, model, in, memory));
  if (out)
    for (auto& g : *out) {
      g.count = count;
      g.least = std::min(count, model.settings.scaling.min);
    }
  return out;
}

proposal count_policy::propose(const cluster_snapshot& snapshot,
                               policy_memory& memory, random_stream&,
                               timestamp now) const {
  static const model_load nothing;
  proposal out;
  for (auto& model : snapshot.scopes.at(scope())->models) {
    auto& x = snapshot.models.at(model);
    auto found = snapshot.loads.find(model);
    auto& load = found == snapshot.loads.end() ? nothing : *found->second;
    auto count =
      !x->elastic ? 0
                  : decide(*x, load, snapshot, memory, now, out.reasons[model]);
    auto groups =
      groups_of(*x, load, snapshot, count, memory, out.reasons[model]);
    if (!groups) {
      out.refused[model] = groups.failure().text;
      continue;
    }
    for (auto& g : *groups)
      out.groups.push_back(std::move(g));
  }
  end_period(snapshot, memory, now);
  return out;
}

} // namespace millrace
