// SPDX-License-Identifier: Apache-2.0
#include "bench/bench_cluster.hpp"

#include <filesystem>

#include <unistd.h>

#include "millrace/loopback.hpp"
#include "models/bundle_store.hpp"
#include "runtime/bytes.hpp"
#include "runtime/units.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

namespace {

constexpr auto start_patience = 30s;
constexpr auto front = "front";

std::string node_text(const bench_setup& x, const std::string& name,
                      const std::string& roles) {
  auto out = "  " + name + ":\n    roles: [" + roles + "]\n    peers: ipc://"
             + x.folder + "/" + name + ".peers\n    data: " + x.folder + "/"
             + name + "\n    models: "
             + x.bundles
             // A host of its own: nodes of one host share model memory.
             + "\n    host: bench at " + x.folder + "\n";
  if (roles.find("worker") == std::string::npos)
    return out;
  return out + "    devices: [{type: cpu, isolation: "
         + std::string{to_string(x.where)} + "}]\n";
}

std::string config_of(const bench_setup& x, const std::string& clients,
                      const std::vector<std::string>& workers) {
  auto out = "cluster: bench\nlog: {level: warning}\nseeds: [ipc://" + x.folder
             + "/" + front + ".peers]\nnodes:\n"
             + node_text(x, front,
                         x.workers == 0 ? "gateway, controller, worker"
                                        : "gateway, controller")
             + "    clients: " + clients + "\n    operators: ipc://" + x.folder
             + "/operators\n";
  if (x.mode == recording::on)
    out += "    http: 127.0.0.1:0\n";
  for (auto& name : workers)
    if (name != front)
      out += node_text(x, name, "worker");
  out += "models:\n";
  for (auto& m : x.models)
    out += "  - " + m + "\n";
  return out;
}

} // namespace

result<std::unique_ptr<bench_cluster>>
bench_cluster::start(const bench_setup& setup) {
  std::error_code failed; // writing the config gives a better error
  std::filesystem::create_directories(setup.folder, failed);
  auto clients = free_address();
  if (!clients)
    return clients.failure();
  std::unique_ptr<bench_cluster> out{new bench_cluster};
  out->clients_ = *clients;
  out->operators_ = "ipc://" + setup.folder + "/operators";
  for (size_t i = 1; i <= setup.workers; ++i)
    out->workers_.push_back("w" + std::to_string(i));
  auto nodes = out->workers_;
  if (setup.workers == 0)
    out->workers_.emplace_back(front);
  nodes.insert(nodes.begin(), front);
  auto config = setup.folder + "/bench.yaml";
  auto text = config_of(setup, *clients, out->workers_);
  if (auto done = write_file(config, std::as_bytes(std::span{text})); !done)
    return done.failure();
  for (auto& name : nodes)
    out->nodes_.push_back(std::make_unique<service>(
      std::vector<std::string>{"node", "--config", config, "--node", name},
      setup.folder + "/" + name + ".log"));
  return out;
}

result<client> bench_cluster::connect(size_t count) {
  auto gateway = client::connect(clients_, start_patience);
  if (!gateway)
    return gateway;
  for (auto begin = steady_now(); steady_now() - begin < start_patience;) {
    auto models = gateway->models();
    if (models && models->size() == count)
      return gateway;
    static_cast<void>(gateway->receive(100ms));
  }
  std::string why;
  if (auto shell = operate())
    if (auto list = shell->ask<model_list>("./registry", get_models{}))
      for (auto& m : list->models)
        if (!m.note.empty())
          why = ": " + m.settings.model + ": " + m.note;
  return error{ec::unavailable,
               "the bench's nodes were not ready in "
                 + format_duration(start_patience) + why,
               {}};
}

result<operator_client> bench_cluster::operate() const {
  return operator_client::connect(operators_, start_patience);
}

result<held_memory> bench_cluster::memory() const {
  held_memory out;
  for (auto& x : nodes_) {
    auto its = x->memory();
    if (!its)
      return its;
    out += *its;
  }
  return out;
}

scratch_folder::scratch_folder()
  : path_(std::filesystem::temp_directory_path()
          / ("millrace-bench-" + std::to_string(::getpid()))) {
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

result<std::string> bundles_with(const std::string& folder,
                                 const std::vector<std::string>& models,
                                 const std::string& made_by) {
  auto out = std::filesystem::absolute(folder).string();
  for (auto& model : models)
    if (auto there = bundle_store{out}.find(model, ""); !there)
      return std::move(there.failure())
        .within("--models (" + made_by + " makes them)");
  return out;
}

} // namespace millrace
