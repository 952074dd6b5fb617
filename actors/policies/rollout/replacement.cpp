// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/planner.hpp"

#include <algorithm>
#include <functional>

#include "runtime/text.hpp"

namespace millrace {

bool rollout_planner::is_replaced_by_turns(
  const std::vector<size_t>& layouts) const {
  return std::all_of(layouts.begin(), layouts.end(), [&](auto i) {
    auto& x = groups_.layouts[i];
    return x.parts.size() == 1 && x.whole == nullptr;
  });
}

rollout_planner::copies_of
rollout_planner::count(const std::vector<size_t>& layouts,
                       const std::vector<placed_replica>& wrong) const {
  copies_of out;
  for (auto i : layouts) {
    auto& x = groups_.layouts[i];
    out.wanted += x.parts.front()->count;
    out.least += x.parts.front()->least;
    out.there += x.there.front().size();
    out.ready += count_ready(x.there.front());
  }
  out.there += wrong.size();
  out.ready += count_ready(wrong);
  return out;
}

void rollout_planner::end_down_to(uint64_t keep, copies_of& is,
                                  std::vector<placed_replica>& wrong) {
  std::stable_partition(wrong.begin(), wrong.end(), is_ready);
  for (; !wrong.empty() && !is_ready(wrong.back()); --is.there) {
    evict(wrong.back());
    wrong.pop_back();
  }
  for (; !wrong.empty() && is.ready > keep; --is.ready, --is.there)
    evict(take_surplus(wrong));
}

void rollout_planner::replace_by_turns(const wanted_groups& wanted) {
  auto& model = wanted.model->settings.model;
  auto& layouts = groups_.by_model[model];
  auto& wrong = groups_.wrong[model];
  if (wrong.empty() || !is_replaced_by_turns(layouts))
    return;
  auto is = count(layouts, wrong);
  end_down_to(is.wanted, is, wrong);
  auto most = is.wanted + wanted.rollout.surge;
  auto left = most - std::min(most, is.there);
  for (auto& y : missing_) {
    if (y.what.model != wanted.model.get())
      continue;
    y.request.missing = std::min(y.request.missing, left);
    left -= y.request.missing;
  }
}

void rollout_planner::end_for_room(const wanted_groups& wanted) {
  auto& model = wanted.model->settings.model;
  auto& layouts = groups_.by_model[model];
  auto& wrong = groups_.wrong[model];
  if (wrong.empty() || !no_room_.contains(model)
      || !is_replaced_by_turns(layouts))
    return;
  if (wanted.rollout.unavailable == 0)
    plan_.notes[model] += " beside the replicas that it replaces, on "
                          + devices_of(wrong)
                          + "; rollout.unavailable of its scope is 0";
  auto is = count(layouts, wrong);
  auto fewer = is.wanted - std::min(is.wanted, wanted.rollout.unavailable);
  end_down_to(std::max(is.least, fewer), is, wrong);
}

std::string rollout_planner::devices_of(const std::vector<placed_replica>& xs) {
  std::set<std::string> out;
  for (auto& r : xs)
    out.insert(*r.node + "/" + r.status->what.device);
  return joined(out, ", ", std::identity{});
}

} // namespace millrace
