// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config.hpp"
#include "config/scenario_hosts.hpp"

namespace millrace {

/// Something wrong in the pools of a scenario.
struct pool_trouble {
  std::string key; ///< "pools.NAME", "hosts[0].pool", "scopes.NAME.pool"
  std::string why;
};

/// Everything wrong with pools, the host groups that belong to them and the
/// scopes that own them: a pool has exactly one host group of workers and one
/// owning scope.
std::vector<pool_trouble>
check_pools(const std::map<std::string, pool_settings>& pools,
            const std::vector<host_group>& hosts,
            const std::map<std::string, scope_settings>& scopes);

} // namespace millrace
