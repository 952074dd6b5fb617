// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/scenario_hosts.hpp"

namespace millrace {

/// An error in the pools of a scenario.
struct pool_trouble {
  std::string key; ///< "pools.NAME", "hosts[0].pool", "scopes.NAME.pool"
  std::string why;
};

/// Returns all errors in pools, their host groups and their scopes. A pool has
/// exactly one host group of workers and one owning scope.
std::vector<pool_trouble>
check_pools(const std::map<std::string, pool_settings>& pools,
            const std::vector<host_group>& hosts,
            const std::map<std::string, scope_settings>& scopes);

} // namespace millrace
