// SPDX-License-Identifier: Apache-2.0
#include "actors/provider/fleet.hpp"

#include <algorithm>
#include <tuple>

#include "runtime/units.hpp"

namespace millrace {

namespace {

using enum machine_condition;

/// How long a booting machine may be without a node.
microseconds absence_max(const pool_settings& its, const fleet_machine& x) {
  return its.patience + (x.booted ? microseconds{0} : its.boot);
}

/// Returns the due step of one machine; nothing: none.
std::optional<fleet_step> own_step(const std::string& name,
                                   const pool_settings& its,
                                   const fleet_machine& x, microseconds now) {
  auto lasts = now - x.since;
  if (x.condition == booting && x.joined)
    return fleet_step{name, ready, "its node has joined"};
  if (x.condition == ready && !x.joined)
    return fleet_step{name, booting, "its node was lost"};
  if (x.condition == booting && lasts >= absence_max(its, x))
    return fleet_step{name, draining,
                      "its node was not there for " + format_duration(lasts)};
  if (x.condition == draining && x.replaced)
    return fleet_step{name, released, "its replicas are ready elsewhere"};
  if (x.condition == draining && lasts >= its.drain)
    return fleet_step{name, released,
                      "its replicas were not replaced within "
                        + format_duration(its.drain)};
  return std::nullopt;
}

bool serves(machine_condition x) {
  return x == requested || x == booting || x == ready;
}

/// The machines of one pool while steps are planned.
class pool_planner {
public:
  pool_planner(const fleet_pool& pool,
               std::map<std::string, fleet_machine>& machines,
               std::vector<fleet_step>& out)
    : pool_(pool),
      machines_(machines),
      out_(out) {
    for (auto& name : pool.machines) {
      auto& x = machines_[name];
      live_ += serves(x.condition);
      open_ += x.condition != released;
    }
  }

  void run() {
    auto most = most_of(pool_);
    auto target = std::clamp(pool_.wanted.value_or(live_),
                             std::min(pool_.settings.least, most), most);
    while (live_ < target && open_ < most && request(target))
      ;
    while (live_ > target && let_go(target))
      ;
  }

private:
  static uint64_t most_of(const fleet_pool& x) {
    auto all = x.machines.size();
    return x.settings.most == 0 ? all : std::min(all, x.settings.most);
  }

  bool request(uint64_t target) {
    for (auto& name : pool_.machines) {
      auto& x = machines_[name];
      if (x.condition != released || x.changes || x.joined)
        continue;
      x.condition = requested;
      ++live_;
      ++open_;
      out_.push_back(
        {name, requested, std::to_string(target) + " machines are wanted"});
      return true;
    }
    return false;
  }

  bool let_go(uint64_t target) {
    const std::string* best = nullptr;
    auto rank = [&](const std::string& name) {
      auto& x = machines_[name];
      return std::tuple{x.condition, x.replicas};
    };
    for (auto& name : pool_.machines) {
      auto& x = machines_[name];
      if (!serves(x.condition) || x.changes)
        continue;
      if (best == nullptr || rank(name) <= rank(*best))
        best = &name;
    }
    if (best == nullptr)
      return false;
    machines_[*best].condition = draining;
    --live_;
    out_.push_back(
      {*best, draining, std::to_string(target) + " machines are wanted"});
    return true;
  }

  const fleet_pool& pool_;
  std::map<std::string, fleet_machine>& machines_;
  std::vector<fleet_step>& out_;
  uint64_t live_ = 0; ///< requested, booting or ready
  uint64_t open_ = 0; ///< not released
};

} // namespace

std::vector<fleet_step>
next_steps(const std::map<std::string, fleet_pool>& pools,
           const std::map<std::string, fleet_machine>& machines,
           microseconds now) {
  std::vector<fleet_step> out;
  auto after = machines;
  for (auto& [pool_name, pool] : pools) {
    for (auto& name : pool.machines) {
      auto& x = after[name];
      if (x.changes)
        continue;
      auto step = own_step(name, pool.settings, x, now);
      if (!step)
        continue;
      x.changes = true;
      // A lease ends when its source has confirmed the end.
      if (step->to != released)
        x.condition = step->to;
      out.push_back(std::move(*step));
    }
    pool_planner{pool, after, out}.run();
  }
  return out;
}

microseconds next_due(const std::map<std::string, fleet_pool>& pools,
                      const std::map<std::string, fleet_machine>& machines) {
  auto out = microseconds::max();
  for (auto& [name, x] : machines) {
    auto pool = pools.find(x.pool);
    if (pool == pools.end() || x.changes)
      continue;
    auto& its = pool->second.settings;
    if (x.condition == booting && !x.joined)
      out = std::min(out, x.since + absence_max(its, x));
    if (x.condition == draining && !x.replaced)
      out = std::min(out, x.since + its.drain);
  }
  return out;
}

} // namespace millrace
