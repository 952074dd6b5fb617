// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/confined/confined_stage.hpp"
#include "models/confined/orders.hpp"

namespace millrace::confined {

/// What a process is told to load, but for its lanes.
struct load_order {
  life_order what;
  file_descriptor packed; ///< manifest and code, one after the other
  std::vector<int> files; ///< that go with it
};

/// What its processes know it by: its bundle and layers.
std::string name_of(const stage_settings& x);

/// Errors: unavailable, with the system's reason.
result<load_order> make_load_order(const stage_settings& x);

} // namespace millrace::confined
