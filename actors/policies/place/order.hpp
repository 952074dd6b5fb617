// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/policies/place/placement_policy.hpp"

namespace millrace {

/// The order in which missing replicas get devices. Returns one request number
/// per missing replica. Ranking: higher priority; then groups below `least`;
/// then the smallest fraction of the group placed; then the lower number.
std::vector<size_t> placing_order(std::span<const placement_request> wanted);

} // namespace millrace
