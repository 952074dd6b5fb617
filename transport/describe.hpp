// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/bundle.hpp"
#include "transport/messages/model.hpp"

namespace millrace {

/// Returns the part of a manifest that other nodes need.
model_info describe(const manifest& info, std::vector<std::string> aliases);
model_info describe(const bundle& opened, std::vector<std::string> aliases);

} // namespace millrace
