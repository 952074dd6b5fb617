// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/scopes.hpp"

namespace millrace {

scope_settings
settings_of_scope(const std::string& scope,
                  const std::map<std::string, scope_settings>& configured,
                  const model_settings& model) {
  scope_settings out;
  if (auto i = configured.find(scope); i != configured.end())
    out = i->second;
  if (out.policy.empty() && scope == "model/" + model.model) {
    out.policy = model.scaling.policy;
    out.options = model.scaling.options;
  }
  return out;
}

} // namespace millrace
