// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/profile.hpp"

namespace millrace {

/// What is odd about a profile that may be as it is, for who has written it, a
/// sentence each: metrics that nothing reads, values that are there twice, and
/// what plans then count as nothing.
std::vector<std::string> remarks_on(const profile& x);

} // namespace millrace
