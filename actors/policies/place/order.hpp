// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

/// The order in which missing replicas get their devices: one entry each, the
/// number of its request. Groups of a higher priority come first; among equals
/// what each lacks of its `least`, then always the group of which the smallest
/// fraction is placed, so that scarce room is shared. Of equals the first.
std::vector<size_t> placing_order(std::span<const placement_request> wanted);

} // namespace millrace
