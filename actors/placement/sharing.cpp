// SPDX-License-Identifier: Apache-2.0

/// \file
/// How a PLACEMENT applies the device sharing of proposals.

#include <algorithm>

#include "actors/placement/placement_state.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

/// The last entry of a proposal for a device; null: it has none.
const device_plan* find_plan(const proposal& x, const std::string& node,
                             const device_info& device) {
  auto i = std::find_if(x.devices.rbegin(), x.devices.rend(), [&](auto& plan) {
    return selects_device(plan.device, node, device);
  });
  return i == x.devices.rend() ? nullptr : &*i;
}

} // namespace

/// Errors: conflict for a device that another scope shares; bad_request for
/// more batches at once than a device has lanes.
result<void> placement_state::check_sharing(const proposal& proposed) const {
  for (auto& [name, node] : view_.nodes)
    for (auto& device : node.devices) {
      auto* plan = find_plan(proposed, name, device);
      if (plan == nullptr)
        continue;
      auto place = name + "/" + device.id;
      if (auto fits = check_at_once(plan->sharing, device.lanes); !fits)
        return std::move(fits.failure())
          .within("device " + shown(place) + ": sharing.at_once");
      for (auto& [scope, other] : proposals_)
        if (scope != proposed.scope
            && find_plan(other, name, device) != nullptr)
          return error{ec::conflict,
                       "scope " + shown(proposed.scope)
                         + " proposes the sharing of"
                           " device "
                         + shown(place) + ", which scope " + shown(scope)
                         + " decides",
                       {}};
    }
  return {};
}

/// Returns the sharing that a scope proposes; nothing: as configured.
std::optional<device_sharing>
placement_state::sharing_of(const std::string& node,
                            const device_info& device) const {
  for (auto& [scope, x] : proposals_)
    if (auto* plan = find_plan(x, node, device))
      return plan->sharing;
  return std::nullopt;
}

/// Lists the device entries of a proposal that no device can apply.
std::vector<std::string>
placement_state::faults_of_devices(const proposal& proposed) const {
  std::vector<std::string> out;
  for (auto& plan : proposed.devices) {
    auto known = false;
    for (auto& [name, node] : view_.nodes)
      for (auto& device : node.devices) {
        if (!selects_device(plan.device, name, device))
          continue;
        known = true;
        if (auto fits = check_at_once(plan.sharing, device.lanes); !fits)
          out.push_back("device " + shown(name + "/" + device.id)
                        + " is not shared as its scope proposes: at once "
                        + fits.failure().text);
      }
    if (!known)
      out.push_back("its scope proposes a sharing of device "
                    + shown(plan.device) + ", which no node has");
  }
  return out;
}

/// Each model of a scope with a refused proposal has a note.
void placement_state::note_faults_of_proposals() {
  for (auto& [model, x] : snapshot_->models) {
    auto add = [&, &name = model](const std::string& text) {
      auto& note = notes_[name];
      note += (note.empty() ? "" : "; ") + text;
    };
    if (auto why = refusals_.find(x->scope); why != refusals_.end())
      add("the proposal of its scope is refused: " + why->second);
    if (auto its = proposals_.find(x->scope); its != proposals_.end())
      for (auto& fault : faults_of_devices(its->second))
        add(fault);
  }
}

void placement_state::share_devices() {
  auto all_proposed =
    std::all_of(snapshot_->scopes.begin(), snapshot_->scopes.end(),
                [&](auto& x) { return proposals_.contains(x.first); });
  for (auto& [name, node] : view_.nodes) {
    auto devices = node.devices; // an order changes the node's
    for (auto& device : devices) {
      auto wanted = sharing_of(name, device);
      if (wanted && !check_at_once(*wanted, device.lanes))
        continue; // proposed before the device was known
      auto differs =
        wanted ? device.sharing != *wanted : device.ordered && all_proposed;
      if (differs)
        share_device_of(node, device, wanted);
    }
  }
}

} // namespace millrace
