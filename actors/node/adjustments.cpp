// SPDX-License-Identifier: Apache-2.0

/// \file
/// How a SUPERVISOR changes parameters of running replicas and devices.

#include <algorithm>

#include "actors/node/supervisor_state.hpp"
#include "runtime/log.hpp"
#include "runtime/units.hpp"

namespace millrace {

void supervisor_state::on_adjust(const adjust& order) {
  if (!obey(order.epoch, order.sequence))
    return;
  if (auto i = replicas_.find(order.replica); i != replicas_.end())
    self_->send(i->second.handle, order);
  else
    log_event(log_level::info, "supervisor", "unknown_replica",
              {{"replica", order.replica}});
}

/// The inventory shows the sharing once the executor has it in force.
void supervisor_state::on_adjust_device(const adjust_device& order) {
  if (!obey(order.epoch, order.sequence))
    return;
  auto configured = configured_.find(order.device);
  auto executor = find_child("executor/" + order.device);
  if (configured == configured_.end() || !executor)
    return log_event(log_level::info, "supervisor", "unknown_device",
                     {{"device", order.device}});
  constexpr caf::timespan timeout = 10s;
  self_
    ->request(caf::actor_cast<executor_actor>(executor), timeout,
              share_device{order.sharing.value_or(configured->second)})
    .then(
      [this, device = order.device,
       ordered = order.sharing.has_value()](const device_sharing& in_force) {
        set_sharing(device, ordered ? std::optional{in_force} : std::nullopt);
        publish_soon();
      },
      [device = order.device](const caf::error& why) {
        log_event(log_level::warning, "supervisor", "sharing_refused",
                  {{"device", device}, {"reason", from_caf(why).text}});
      });
}

/// Errors: bad_request for a device that this node does not have or that is not
/// emulated, and for a factor that is not above 0.
caf::result<ack> supervisor_state::on_slow_device(const slow_device& request) {
  auto executor = find_child("executor/" + request.device);
  if (!executor)
    return to_caf(
      {ec::bad_request, "no device '" + request.device + "' on this node", {}});
  constexpr double most = 1e6;
  if (!(request.factor > 1 / most && request.factor < most))
    return to_caf({ec::bad_request,
                   "factor: expected a number from 1e-06 to 1e+06, found "
                     + format_number(request.factor),
                   {}});
  log_event(log_level::info, "supervisor", "device_slowed",
            {{"device", request.device}, {"factor", request.factor}});
  return self_->delegate(caf::actor_cast<executor_actor>(executor), request);
}

void supervisor_state::set_sharing(
  const std::string& device, const std::optional<device_sharing>& ordered) {
  for (auto& known : options_.devices)
    if (known.id == device) {
      known.sharing = ordered.value_or(configured_.at(device));
      known.ordered = ordered.has_value();
      for (auto& [replica, entry] : replicas_)
        if (entry.status.what.device == device)
          self_->send(entry.handle, share_device{known.sharing});
    }
}

} // namespace millrace
