// SPDX-License-Identifier: Apache-2.0

/// \file
/// Plans of where to cut a model. Planning takes seconds for many layers, and
/// runs outside of the actors.

#include <algorithm>

#include "actors/profiler/profiler_state.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// Limit of requests that wait for a plan.
constexpr size_t most_planning = 16;

} // namespace

/// Finished plans, with the reply to send.
struct plans_made {
  uint64_t request = 0;
  std::shared_ptr<const partition_planner> planner;
  host_link link;
  plan_list list;
};

caf::result<plan_list> profiler_state::on_get_plans(const get_plans& request) {
  if (request.devices == 0 || request.requests == 0
      || request.requests > 1'000'000)
    return to_caf({ec::bad_request,
                   "expected at least one device, and 1 to 1000000 requests",
                   {}});
  auto all = profiles_of(request.model, request.version);
  if (all.empty())
    return to_caf({ec::unavailable,
                   "no profile of " + request.model
                     + (first_of(request.model) == profiles_.end() ? ""
                        : info_of(request.model, request.version) == nullptr
                          ? " for its layers, which no bundle here lists"
                          : " for these layers, only for others")
                     + ": run 'measure' on an idle device",
                   {}});
  std::set<std::string> kinds;
  for (auto* one : all)
    kinds.merge(devices_in(one->what));
  auto kind = request.device.empty() ? *kinds.begin() : request.device;
  if (request.device.empty() ? kinds.size() > 1
                             : !kinds.contains(request.device))
    return to_caf(
      {ec::bad_request,
       "the profile of " + request.model + " is for device kinds "
         + joined(kinds, ", ", [](auto& y) { return y; })
         + ": expected one kind"
         + (request.device.empty() ? "" : ", found " + shown(request.device)),
       {}});
  auto* known = *std::find_if(all.begin(), all.end(), [&](auto* one) {
    return devices_in(one->what).contains(kind);
  });
  auto& what = known->what;
  if (auto fine = check_layers(request, layers_in(what, kind)); !fine)
    return to_caf(fine.failure());
  if (planning_.size() >= most_planning)
    return to_caf({ec::overloaded, "other plans are being made", {}});
  auto mine = ++last_request_;
  auto out = std::make_shared<plans_made>();
  out->request = mine;
  out->link = link_between_workers();
  out->list.device = kind;
  plans_key at{key_of(what), kind};
  if (auto i = plans_.find(at);
      i != plans_.end() && i->second.link == out->link) {
    out->planner = i->second.planner;
    out->list.number = i->second.number;
  } else {
    out->list.number = ++planned_;
  }
  auto costs = layer_costs_of(what, kind, 1, out->link);
  if (!costs)
    return to_caf(costs.failure());
  auto promise = self_->make_response_promise<plan_list>();
  planning_[mine] = {std::move(at), known->version, promise};
  options_.aside(
    [out, request, costs = std::move(*costs), tell = teller<planned>(self_)] {
      if (!out->planner)
        out->planner = std::make_shared<partition_planner>(costs);
      for (auto& r : out->planner->ranges(request.devices, request.requests))
        out->list.ranges.push_back({r.first,
                                    r.last,
                                    {r.plan->cuts.begin(), r.plan->cuts.end()},
                                    r.plan->cold,
                                    r.plan->period,
                                    r.plan->inference});
      tell({out});
    });
  return promise;
}

void profiler_state::on_planned(const planned& message) {
  auto& made = *message.plans;
  auto mine = planning_.extract(made.request);
  if (!mine)
    return;
  auto& [of, profile, promise] = mine.mapped();
  if (auto known = profiles_.find(of.first);
      known != profiles_.end() && known->second.version == profile)
    plans_[of] = {made.planner, made.link, made.list.number};
  promise.deliver(made.list);
}

/// Errors: bad_request when the profile and the bundle have different numbers
/// of layers.
result<void> profiler_state::check_layers(const get_plans& request,
                                          size_t layers) const {
  auto* info = info_of(request.model, request.version);
  if (info == nullptr || layers == 0 || info->layer_bytes.size() == layers)
    return {};
  return error{ec::bad_request,
               "the profile of " + request.model + " has "
                 + std::to_string(layers) + " layers, and its bundle has "
                 + std::to_string(info->layer_bytes.size()),
               {}};
}

/// Returns the slowest link of a node with devices, because a plan holds for
/// any nodes.
host_link profiler_state::link_between_workers() const {
  auto out = options_.link;
  uint64_t slowest = 0;
  for (auto& [name, node] : view_.nodes)
    if (auto its = node.node.network; !node.devices.empty() && its > 0)
      slowest = slowest == 0 ? its : std::min(slowest, its);
  if (slowest > 0)
    out.rate = {static_cast<double>(slowest)};
  return out;
}

} // namespace millrace
