// SPDX-License-Identifier: Apache-2.0
#include "simulator/cluster.hpp"

#include <algorithm>

namespace millrace::simulator {

cluster::cluster(const loaded_scenario& what, uint64_t seed, watcher& seen_by)
  : network_(world_, what.spec.network, random_stream{seed}.fork("network")),
    links_(network_,
           {what.cluster.link.beat, what.cluster.link.timeout,
            what.cluster.link.max_nodes},
           random_stream{seed}.fork("links")),
    contents_(what.spec),
    yard_(world_, what.cluster, seen_by) {
  plan_.what = &what;
  plan_.profiles = what.profiles;
  plan_.random = random_stream{seed}.fork("nodes");
  plan_.world = &world_;
  plan_.links = &links_;
  plan_.seen_by = &seen_by;
  plan_.models = &contents_;
  if (std::any_of(
        what.spec.bundles.begin(), what.spec.bundles.end(), [](auto& x) {
          return !x.second.on.empty() || x.second.at == bundle_place::store;
        }))
    plan_.bulk = &bulk_;
  if (!what.cluster.pools.empty())
    plan_.machines = &yard_;
  for (auto& [name, config] : what.cluster.nodes) {
    nodes_[name] = std::make_unique<node>(plan_, name);
    yard_.add(*nodes_[name]);
  }
}

void cluster::start() {
  for (auto& [name, x] : nodes_)
    if (!yard_.has(name))
      x->start();
}

void cluster::kill(const std::string& name) {
  if (yard_.has(name))
    yard_.kill(name);
  else
    at(name).kill();
}

void cluster::start(const std::string& name) {
  if (yard_.has(name))
    yard_.start(name);
  else
    at(name).start();
}

} // namespace millrace::simulator
