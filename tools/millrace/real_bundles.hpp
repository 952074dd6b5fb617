// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/scenario.hpp"

namespace millrace {

/// Writes a bundle of a scenario for a real run to FOLDER/MODEL/1: its manifest
/// and its code. A bundle of several layers, and one that only some hosts have
/// (bundles.NAME.on), gets a weights file with as many bytes as the scenario
/// gives it. Errors: bad_request for more than 1 GiB, and those of the disk.
result<void> write_real_bundle(const std::string& folder,
                               const std::string& model,
                               const simulated_model& x);

} // namespace millrace
