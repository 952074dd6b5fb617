// SPDX-License-Identifier: Apache-2.0
#include "simulator/cluster.hpp"

namespace millrace::simulator {

cluster::cluster(const loaded_scenario& what, uint64_t seed, observer& watcher)
  : what_(what),
    watcher_(watcher),
    network_(world_, what.spec.network, random_stream{seed}.fork("network")),
    links_(network_,
           {what.cluster.link.beat, what.cluster.link.timeout,
            what.cluster.link.max_nodes},
           random_stream{seed}.fork("links")) {
  plan_.what = &what_;
  plan_.profiles = what.profiles;
  plan_.random = random_stream{seed}.fork("nodes");
  plan_.world = &world_;
  plan_.links = &links_;
  plan_.outside = this;
  plan_.devices = &watcher_;
  plan_.tell = [this](auto& node, auto event) {
    watcher_.on_node(node, event);
  };
  for (auto& [name, config] : what.cluster.nodes)
    nodes_[name] = std::make_unique<node>(plan_, name);
}

cluster::~cluster() {
  nodes_.clear();
}

void cluster::start() {
  for (auto& [name, x] : nodes_)
    x->start();
}

void cluster::on_reply(const session& to, uint64_t id, infer_reply x) {
  watcher_.on_reply(to, id, x);
}

void cluster::on_models(const session&, uint64_t, model_list_reply) {
}

void cluster::on_operator_answer(const std::string& node, uint64_t id,
                                 const caf::message& x) {
  watcher_.on_operator_answer(node, id, x);
}

void cluster::on_link(const member& who, const member& whom, bool up) {
  watcher_.on_link(who, whom, up);
}

void cluster::on_delivered(const member& from, const member& to,
                           const header& what) {
  watcher_.on_delivered(from, to, what);
}

} // namespace millrace::simulator
