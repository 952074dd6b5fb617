// SPDX-License-Identifier: Apache-2.0

/// \file
/// The cost book that a PROFILER publishes.

#include "actors/profiler/profiler_state.hpp"

namespace millrace {

namespace {

/// Shortest interval between two cost books.
constexpr auto costs_pause = 1s;

} // namespace

void profiler_state::renew_costs(const std::string& model) {
  model_profiles profiles;
  for (auto i = first_of(model);
       i != profiles_.end() && i->first.first == model; ++i)
    profiles.all.push_back(i->second.what);
  model_averages averages;
  for (auto i = live_.lower_bound({model, 0, {}, {}});
       i != live_.end() && std::get<0>(i->first) == model; ++i)
    averages.all.push_back(i->second.cost);
  auto put = [&]<class T>(auto& in, T x) {
    if (x.all.empty())
      in.erase(model);
    else if (auto& known = in[model]; !known || *known != x)
      known = std::make_shared<const T>(std::move(x));
  };
  put(costs_.profiles, std::move(profiles));
  put(costs_.averages, std::move(averages));
}

void profiler_state::publish_costs() {
  auto now = self_->clock().now();
  auto to =
    options_.cluster_state ? options_.cluster_state() : cluster_state_actor{};
  auto is_new = to && to->address() != costs_sent_to_;
  if (!to || !table_.is_started() || (costs_due_.empty() && !is_new)
      || (now < costs_sent_ + costs_pause && !is_new))
    return;
  for (auto& model : std::exchange(costs_due_, {}))
    renew_costs(model);
  ++costs_.version;
  costs_sent_ = now;
  costs_sent_to_ = to->address();
  self_->send(to, costs_changed{std::make_shared<const cost_book>(costs_)});
}

} // namespace millrace
