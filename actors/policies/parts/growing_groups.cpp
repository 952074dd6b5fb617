// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/parts/growing_groups.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "actors/policies/state/configured_groups.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

std::string counted(uint64_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

std::string prefix_of(uint64_t number) {
  return "b" + std::to_string(number) + ".";
}

/// Reads "NUMBER CUT,CUT" with a separator between the two; nothing when the
/// text is something else.
std::optional<burst> parse_burst(std::string_view text, char separator) {
  auto middle = text.find(separator);
  if (middle == std::string_view::npos)
    return std::nullopt;
  burst out;
  auto number = number_in<uint64_t>(text.substr(0, middle));
  if (!number)
    return std::nullopt;
  out.number = *number;
  for (auto item : split(text.substr(middle + 1), ',')) {
    auto cut = number_in<uint64_t>(item);
    if (!cut)
      return std::nullopt;
    out.cuts.push_back(*cut);
  }
  return out;
}

/// The burst that a cut of a group belongs to: "bNUMBER.CUT,CUT".
std::optional<burst> burst_of(std::string_view cut) {
  return cut.starts_with('b') ? parse_burst(cut.substr(1), '.') : std::nullopt;
}

std::string memory_prefix(const std::string& model) {
  return model + "/burst ";
}

std::string wholes_key(const std::string& model) {
  return model + "/wholes";
}

/// Rebuilds the state from the running replicas.
grown rebuilt(const model_load& load) {
  grown out;
  std::map<uint64_t, burst> bursts;
  for (auto& g : load.groups) {
    auto its =
      burst_of(g.group.extends.empty() ? g.group.cut : g.group.extends);
    if (!its) {
      out.wholes = std::max(out.wholes, g.ready + g.starting);
      continue;
    }
    its->groups = g.group.extends.empty()
                    ? std::max<uint64_t>(1, g.group.count)
                    : std::max<uint64_t>(1, g.group.count / its->parts());
    bursts.emplace(its->number, std::move(*its));
  }
  for (auto& [number, x] : bursts)
    out.bursts.push_back(std::move(x));
  return out;
}

grown remembered(const std::string& model, const model_load& load,
                 const policy_memory& memory) {
  auto wholes = memory.values.find(wholes_key(model));
  if (wholes == memory.values.end())
    return rebuilt(load);
  grown out;
  out.wholes = static_cast<uint64_t>(wholes->second);
  auto prefix = memory_prefix(model);
  for (auto i = memory.values.lower_bound(prefix);
       i != memory.values.end() && i->first.starts_with(prefix); ++i)
    if (auto x =
          parse_burst(std::string_view{i->first}.substr(prefix.size()), ' ')) {
      x->groups = static_cast<uint64_t>(i->second);
      out.bursts.push_back(std::move(*x));
    }
  return out;
}

void remember(const std::string& model, const grown& x, policy_memory& memory) {
  auto prefix = memory_prefix(model);
  std::erase_if(memory.values,
                [&](auto& y) { return y.first.starts_with(prefix); });
  memory.values[wholes_key(model)] = static_cast<double>(x.wholes);
  for (auto& b : x.bursts)
    memory.values[prefix + std::to_string(b.number) + " " + cut_text(b.cuts)] =
      static_cast<double>(b.groups);
}

/// Returns the least number that no burst and no running replica of a burst
/// has.
uint64_t free_number(const grown& x, const model_load& load) {
  std::set<uint64_t> taken;
  for (auto& b : x.bursts)
    taken.insert(b.number);
  for (auto& g : load.groups)
    for (auto* cut : {&g.group.cut, &g.group.extends})
      if (auto its = burst_of(*cut))
        taken.insert(its->number);
  uint64_t out = 1;
  while (taken.contains(out))
    ++out;
  return out;
}

/// Starts replicas on `devices` more devices, according to the partition plan.
void grow(grown& x, const model_state& model, const model_load& load,
          const cluster_snapshot& in, uint64_t devices,
          const plan_options& options, start_planners& planners,
          std::string& reason) {
  auto found = planners.planner_for(in, model, options);
  if (!found) {
    x.wholes += devices;
    reason += "; whole replicas, for " + found.failure().text;
    return;
  }
  auto& plans = *found->plans;
  auto served = served_rate(load, found->execute);
  auto requests =
    requests_expected(load.waiting, load.rate, served,
                      plans.plans_of(1).front().cold, options.requests_max);
  auto primed = std::min(found->source.primed, devices);
  auto best = best_deployment(plans, {.requests = requests,
                                      .devices = devices,
                                      .primed = primed,
                                      .primed_cold = found->primed_cold});
  x.wholes += best.primed + best.full;
  reason += "; starts ";
  if (auto n = best.primed + best.full; n > 0)
    reason += counted(n, "whole replica") + (best.groups > 0 ? " and " : "");
  if (best.groups > 0) {
    burst fresh{free_number(x, load),
                {best.plan->cuts.begin(), best.plan->cuts.end()},
                best.groups};
    reason += counted(fresh.groups, "group") + " of "
              + std::to_string(fresh.parts()) + " parts (cuts "
              + cut_text(fresh.cuts) + ")";
    auto after = std::find_if(x.bursts.begin(), x.bursts.end(),
                              [&](auto& y) { return y.number > fresh.number; });
    x.bursts.insert(after, std::move(fresh));
  }
  reason += ": plan for " + counted(requests, "request") + " on "
            + counted(devices, "device") + ", " + std::to_string(primed)
            + " primed, from " + found->source.location + " at "
            + format_bandwidth(found->source.rate);
}

} // namespace

uint64_t grown::devices() const {
  auto out = wholes;
  for (auto& b : bursts)
    out += b.devices();
  return out;
}

void take_completed(grown& growth, const model_load& load) {
  std::erase_if(growth.bursts, [&](const burst& b) {
    auto cut = prefix_of(b.number) + cut_text(b.cuts);
    uint64_t parts = 0, wholes = 0;
    for (auto& g : load.groups) {
      if (g.group.cut == cut)
        parts += g.ready + g.starting;
      if (g.group.extends == cut)
        wholes += g.ready;
    }
    if (parts > 0 || wholes == 0)
      return false;
    growth.wholes += b.devices();
    return true;
  });
}

void release(grown& growth, uint64_t devices) {
  std::vector<burst*> order;
  for (auto& b : growth.bursts)
    order.push_back(&b);
  std::stable_sort(order.begin(), order.end(),
                   [](auto* a, auto* b) { return a->parts() > b->parts(); });
  for (auto* b : order) {
    auto groups = std::min(b->groups, devices / b->parts());
    b->groups -= groups;
    devices -= groups * b->parts();
  }
  std::erase_if(growth.bursts, [](auto& b) { return b.groups == 0; });
  growth.wholes -= std::min(growth.wholes, devices);
}

double served_rate(const model_load& load, const std::vector<double>& execute) {
  auto seconds_of_layers = [&](const layer_range& x) {
    double out = 0;
    for (auto i = x.first; i < x.last && i < execute.size(); ++i)
      out += execute[i];
    return out;
  };
  double out = 0;
  std::map<std::string, double> by_cut;
  for (auto& g : load.groups) {
    auto each = seconds_of_layers(g.layers);
    if (each <= 0)
      continue;
    auto rate = static_cast<double>(g.ready) / each;
    if (g.layers == layer_range{0, execute.size()}) {
      out += rate;
      continue;
    }
    auto [known, fresh] = by_cut.try_emplace(g.group.cut, rate);
    if (!fresh)
      known->second = std::min(known->second, rate);
  }
  for (auto& [cut, rate] : by_cut)
    out += rate;
  return out;
}

uint64_t devices_there(const model_load& load) {
  uint64_t out = 0;
  std::map<std::string, uint64_t> parts, wholes; // by cut
  for (auto& g : load.groups) {
    auto n = g.ready + g.starting;
    (g.group.extends.empty() ? parts[g.group.cut] : wholes[g.group.extends]) +=
      n;
  }
  for (auto& [cut, n] : parts)
    out += n;
  for (auto& [cut, n] : wholes)
    out += n - std::min(n, parts[cut]);
  return out;
}

std::vector<replica_group>
growing_groups(const model_state& model, const model_load& load,
               const cluster_snapshot& in, uint64_t count,
               const plan_options& options, start_planners& planners,
               policy_memory& memory, std::string& reason) {
  auto& name = model.settings.model;
  auto is = remembered(name, load, memory);
  take_completed(is, load);
  auto there = is.devices();
  if (count > there)
    grow(is, model, load, in, count - there, options, planners, reason);
  else if (count < there)
    release(is, there - count);
  remember(name, is, memory);
  std::vector<replica_group> out;
  auto& whole = out.emplace_back(group_of(model, whole_key));
  whole.layers = whole_of(model.bundle);
  whole.cut = whole_key;
  whole.count = is.wholes;
  whole.least = std::min(is.wholes, model.settings.scaling.min);
  for (auto& b : is.bursts)
    for (auto& g : groups_of_cut(model, b.cuts, prefix_of(b.number), true)) {
      g.count = g.extends.empty() ? b.groups : b.devices();
      out.push_back(std::move(g));
    }
  return out;
}

} // namespace millrace
