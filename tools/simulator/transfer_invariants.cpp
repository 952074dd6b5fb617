// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "runtime/text.hpp"
#include "simulator/invariants.hpp"
#include "simulator/simulation.hpp"

namespace millrace::simulator {

namespace {

/// I20: After all faults each controller's directory lists exactly the contents
/// that each host has.
class directory_agrees : public invariant {
public:
  explicit directory_agrees(const expectations& x)
    : invariant("I20"),
      what_(*x.what) {}

  void at_end(simulation& run) override {
    std::map<std::string, std::set<std::string>> has; // by node: contents
    for (auto& [name, node] : run.inside().nodes())
      if (auto there = run.ask<cache_status>(name, "cache", get_cache{}))
        for (auto& y : there->bundles)
          if (y.state != cache_place::arriving && y.state != cache_place::broken
              && !y.content.empty())
            has[name].insert(y.content);
    for (auto& [name, config] : what_.cluster.nodes) {
      auto& roles = config.roles;
      if (std::count(roles.begin(), roles.end(), node_role::controller) == 0)
        continue;
      auto list = run.ask<chain_list>(name, "chains", get_chains{});
      std::map<std::string, std::set<std::string>> said;
      if (list)
        for (auto& y : list->copies)
          for (auto& node : y.hosts)
            said[node].insert(y.content);
      compare(name, has, said, run.inside().world().now());
    }
  }

private:
  void compare(const std::string& controller,
               const std::map<std::string, std::set<std::string>>& has,
               std::map<std::string, std::set<std::string>>& said,
               timestamp now) {
    auto show = [](const std::set<std::string>& xs) {
      return joined(xs, ", ", [](auto& x) { return x.substr(0, 8); });
    };
    for (auto& [node, contents] : has)
      if (said[node] != contents)
        broken(now, controller + " lists that " + node + " has ["
                      + show(said[node]) + "], it has [" + show(contents)
                      + "]");
    for (auto& [node, contents] : said)
      if (!contents.empty() && !has.contains(node)
          && !node.starts_with(store_prefix))
        broken(now, controller + " lists that " + node + " has ["
                      + show(contents) + "], it has nothing");
  }

  const loaded_scenario& what_;
};

/// I12: After all faults each cache counts at least the replicas that use a
/// content in memory.
class in_use : public invariant {
public:
  in_use() : invariant("I12") {}

  void at_end(simulation& run) override {
    for (auto& [name, node] : run.inside().nodes()) {
      auto status = run.ask<node_status>(name, "supervisor", get_status{});
      auto there = run.ask<cache_status>(name, "cache", get_cache{});
      if (!status || !there)
        continue;
      std::map<std::string, uint64_t> loaded; // replicas, by content
      for (auto& r : status->replicas)
        loaded[r.what.content] += r.state == replica_condition::ready;
      for (auto& y : there->bundles)
        if (is_in_memory(y.state) && y.users < loaded[y.content])
          broken(run.inside().world().now(),
                 name + "'s cache counts " + std::to_string(y.users)
                   + " users of " + y.content.substr(0, 8) + ", there are "
                   + std::to_string(loaded[y.content]));
    }
  }

private:
  static bool is_in_memory(cache_place x) {
    return x == cache_place::memory || x == cache_place::arriving;
  }
};

} // namespace

void add_transfer_invariants(const expectations& expected,
                             invariant_list& out) {
  out.push_back(std::make_unique<directory_agrees>(expected));
  out.push_back(std::make_unique<in_use>());
}

} // namespace millrace::simulator
