// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/scenario.hpp"

namespace millrace {

/// Writes a bundle of a scenario for a real run to FOLDER/MODEL/1: manifest and
/// code. A bundle of several layers, or one that only some hosts have
/// (bundles.NAME.on), gets a weights file of the size given in the scenario.
/// Errors: bad_request over 1 GiB, and errors of the disk.
result<void> write_real_bundle(const std::string& folder,
                               const std::string& model,
                               const simulated_model& simulated);

} // namespace millrace
