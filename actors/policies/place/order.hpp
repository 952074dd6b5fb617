// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

/// The order in which missing replicas get devices. Returns one request number
/// per missing replica. Ranking: higher priority; then groups below `least`;
/// then the smallest fraction of the group placed; then the lower number.
std::vector<size_t> placing_order(std::span<const placement_request> wanted);

/// Returns the device of the next replica of one request; nothing when no
/// device has room. Asked again only after that replica was booked.
using device_chooser = std::function<std::optional<size_t>()>;

/// Makes the choosers of one decision, by the number of the request.
using chooser_factory = std::function<device_chooser(size_t request)>;

/// Places all replicas with the choosers of a policy, group by group. When some
/// replica finds no room, placement starts over in the order of placing_order.
/// `begin` is called before each attempt, when nothing is booked.
placement_map place_groups(std::span<const placement_request> wanted,
                           capacity_reservation& room,
                           const std::function<chooser_factory()>& begin);

} // namespace millrace
