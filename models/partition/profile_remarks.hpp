// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/profile.hpp"

namespace millrace {

/// Warnings about a valid profile for its author, a sentence each: metrics that
/// are never read, duplicate values, and costs that plans then take as 0.
std::vector<std::string> remarks_on(const profile& measured);

} // namespace millrace
