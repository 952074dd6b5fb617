// SPDX-License-Identifier: Apache-2.0
#include "config/pools.hpp"

#include <functional>

#include "runtime/text.hpp"

namespace millrace {

namespace {

class pool_checker {
public:
  pool_checker(const std::map<std::string, pool_settings>& pools,
               const std::vector<host_group>& hosts,
               const std::map<std::string, scope_settings>& scopes)
    : pools_(pools),
      hosts_(hosts),
      scopes_(scopes) {}

  std::vector<pool_trouble> run() {
    for (size_t i = 0; i < hosts_.size(); ++i)
      if (!hosts_[i].pool.empty())
        check_hosts("hosts[" + std::to_string(i) + "].pool", hosts_[i]);
    for (auto& [scope, x] : scopes_)
      if (!x.pool.empty())
        check_owner("scopes." + scope + ".pool", scope, x.pool);
    for (auto& [name, x] : pools_)
      check_pool("pools." + name, name, x);
    return std::move(out_);
  }

private:
  void refuse(std::string key, std::string why) {
    out_.push_back({std::move(key), std::move(why)});
  }

  bool known(const std::string& key, const std::string& pool) {
    if (pools_.contains(pool))
      return true;
    auto names = joined(pools_, ", ", [](auto& x) { return x.first; });
    refuse(key, "there is no pool " + shown(pool)
                  + (names.empty() ? " (expected it under 'pools')"
                                   : " (expected one of " + names + ")"));
    return false;
  }

  void check_hosts(const std::string& key, const host_group& x) {
    if (!known(key, x.pool))
      return;
    if (x.roles != std::vector{node_role::worker})
      refuse(key, "hosts of a pool start and stop (expected roles: [worker])");
    auto [i, fresh] = hosts_of_.try_emplace(x.pool, &x);
    if (!fresh)
      refuse(key, "pool " + shown(x.pool) + " has the hosts "
                    + shown(i->second->name)
                    + " already, and all machines of a pool must be equal"
                      " (expected another pool)");
  }

  void check_owner(const std::string& key, const std::string& scope,
                   const std::string& pool) {
    if (!known(key, pool))
      return;
    auto [i, fresh] = owners_.try_emplace(pool, scope);
    if (!fresh)
      refuse(key, "pool " + shown(pool) + " belongs to scope " + i->second
                    + " already (expected one owner)");
  }

  void check_pool(const std::string& key, const std::string& name,
                  const pool_settings& x) {
    auto group = hosts_of_.find(name);
    if (group == hosts_of_.end())
      return refuse(key, "no hosts belong to it (expected hosts[].pool: " + name
                           + ")");
    if (!owners_.contains(name))
      refuse(key, "no scope owns it, so nothing requests its machines (expected"
                  " scopes.NAME.pool: "
                    + name + ")");
    auto count = std::max<uint64_t>(1, group->second->count);
    if (x.most > count)
      refuse(key + ".most", "is " + std::to_string(x.most) + ", and the hosts "
                              + shown(group->second->name) + " are "
                              + std::to_string(count));
    if (auto most = x.most == 0 ? count : x.most; x.least > most)
      refuse(key + ".least", "is " + std::to_string(x.least)
                               + ", and there are at most "
                               + std::to_string(most) + " machines");
  }

  const std::map<std::string, pool_settings>& pools_;
  const std::vector<host_group>& hosts_;
  const std::map<std::string, scope_settings>& scopes_;
  std::map<std::string, const host_group*> hosts_of_; ///< by pool
  std::map<std::string, std::string> owners_;         ///< by pool
  std::vector<pool_trouble> out_;
};

} // namespace

std::vector<pool_trouble>
check_pools(const std::map<std::string, pool_settings>& pools,
            const std::vector<host_group>& hosts,
            const std::map<std::string, scope_settings>& scopes) {
  return pool_checker{pools, hosts, scopes}.run();
}

} // namespace millrace
