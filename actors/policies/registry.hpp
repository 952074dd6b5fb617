// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/policies/options.hpp"
#include "actors/policies/place/placement_policy.hpp"
#include "actors/policies/scale/scaling_policy.hpp"

namespace millrace {

/// A policy by its name in configs.
template <class Policy, class... Context>
struct policy_entry {
  std::string name;
  std::string says; ///< what the policy decides by, in one sentence
  /// Errors: bad_request for an unknown option or an invalid value.
  result<std::shared_ptr<const Policy>> (*make)(const option_texts& options,
                                                const Context&... context);
  /// The options as rows of a table: name, default, limits, meaning.
  std::vector<std::vector<std::string>> (*options)();
};

/// All scaling policies; `fixed` first. Each is made for a scope.
using scaling_entry = policy_entry<scaling_policy, std::string>;
const std::vector<scaling_entry>& scaling_policies();

/// All placement policies; `least_loaded` first.
using placement_entry = policy_entry<placement_policy>;
const std::vector<placement_entry>& placement_policies();

/// Makes the placement policy that the settings name; the first registered
/// policy when they name none. Errors: as make_scaling_policy.
result<std::shared_ptr<const placement_policy>>
make_placement_policy(const placement_settings& settings);

/// Makes the policy that a scope names. Errors: bad_request for an unknown
/// name, with the known names, and for invalid options.
result<std::shared_ptr<const scaling_policy>>
make_scaling_policy(const std::string& scope, const scope_settings& settings);

/// A fault in the scaling settings: the option and the reason.
struct scaling_trouble {
  std::string key; ///< "models[2].scaling.min", "scopes.cluster.policy"
  std::string why;
};

/// Finds all faults in the scaling settings.
std::vector<scaling_trouble>
check_scaling(const std::vector<model_settings>& models,
              const std::map<std::string, scope_settings>& scopes);

} // namespace millrace
