// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/confined/confined_stage.hpp"
#include "models/confined/orders.hpp"

namespace millrace::confined {

/// An order to load a stage, without its lanes.
struct load_order {
  life_order what;
  file_descriptor packed; ///< manifest and code, concatenated
  std::vector<int> files; ///< descriptors to send with it
};

/// Name of a stage within its process source: its bundle and layers.
std::string name_of(const stage_settings& settings);

/// Errors: unavailable, with the system's reason.
result<load_order> make_load_order(const stage_settings& settings);

} // namespace millrace::confined
