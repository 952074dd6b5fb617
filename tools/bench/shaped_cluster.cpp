// SPDX-License-Identifier: Apache-2.0
#include "bench/shaped_cluster.hpp"

#include <filesystem>

#include "bench/shaped_hosts.hpp"
#include "runtime/bytes.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

constexpr auto cluster_start_patience = 30s;

std::string config_of(const std::string& folder,
                      const std::vector<shaped_node>& nodes,
                      const std::string& more) {
  auto out = "cluster: bench\nlog: {level: warning}\nkeys: " + folder
             + "/keys\nseeds: [tcp://" + address_of(0) + ":7200]\n" + more
             + "nodes:\n";
  for (size_t host = 0; host < nodes.size(); ++host) {
    auto& x = nodes[host];
    auto name = shaped_cluster::name_of(host);
    out += "  " + name + ":\n    roles: [" + x.roles + "]\n    host: " + name
           + "\n    peers: tcp://" + address_of(host) + ":7200\n    data: "
           + folder + "/" + name + "\n    models: " + x.models + "\n";
    if (!x.device.empty())
      out += "    devices: [" + x.device + "]\n";
    if (host == 0)
      out += "    operators: ipc://" + folder + "/operators\n";
    if (x.roles.find("gateway") != std::string::npos)
      out += "    clients: ipc://" + folder + "/clients\n";
  }
  return out;
}

} // namespace

result<std::unique_ptr<shaped_cluster>>
shaped_cluster::start(const std::string& folder,
                      const std::vector<shaped_node>& nodes,
                      const std::string& more) {
  std::unique_ptr<shaped_cluster> out{new shaped_cluster{folder}};
  std::error_code failed; // writing the config gives a better error
  std::filesystem::create_directories(folder, failed);
  auto config = folder + "/bench.yaml";
  auto text = config_of(folder, nodes, more);
  if (auto done = write_file(config, std::as_bytes(std::span{text})); !done)
    return done.failure();
  out->make_keys(nodes.size());
  for (size_t host = 0; host < nodes.size(); ++host)
    out->nodes_.push_back(std::make_unique<service>(
      std::vector<std::string>{"node", "--config", config, "--node",
                               name_of(host)},
      folder + "/" + name_of(host) + ".log", space_of(host)));
  if (auto met = out->meet(); !met)
    return met.failure();
  return out;
}

void shaped_cluster::make_keys(size_t nodes) const {
  auto make = [&](const std::string& name, const std::string& role) {
    child{{"keys", "new", folder_ + "/keys", name, "--role", role}}.wait();
  };
  for (size_t host = 0; host < nodes; ++host)
    make(name_of(host), host == 0 ? "controller" : "node");
  make("ops", "operator");
  make("someone", "client");
}

result<void> shaped_cluster::meet() {
  auto shell =
    operator_client::connect("ipc://" + folder_ + "/operators",
                             cluster_start_patience, folder_ + "/keys/ops.key");
  if (!shell)
    return shell.failure();
  shell_ = std::make_unique<operator_client>(std::move(*shell));
  for (auto until = steady_now() + cluster_start_patience; steady_now() < until;
       shell_->idle(20ms)) {
    auto members = shell_->ask<member_list>("./supervisor", get_members{});
    if (members && members->peers.size() == nodes_.size() - 1)
      return {};
  }
  return error{ec::unavailable, "the hosts did not meet; see " + folder_, {}};
}

result<client> shaped_cluster::connect() const {
  return client::connect("ipc://" + folder_ + "/clients",
                         cluster_start_patience, folder_ + "/keys/someone.key");
}

} // namespace millrace
