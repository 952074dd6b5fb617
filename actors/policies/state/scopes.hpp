// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "transport/messages/model.hpp"

namespace millrace {

/// The settings of a scope: configured under its name, else given by the only
/// model that has this scope by default.
scope_settings
settings_of_scope(const std::string& scope,
                  const std::map<std::string, scope_settings>& configured,
                  const model_settings& model);

} // namespace millrace
