// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/device/device.hpp"
#include "runtime/log.hpp"
#include "transport/messages/model.hpp"
#include "transport/peers.hpp"

namespace millrace {

/// What a process does; see the table of roles in README.md.
enum class node_role : uint8_t { gateway, controller, worker };

constexpr auto names_of(node_role) {
  return name_table{"gateway", "controller", "worker"};
}

enum class device_type : uint8_t { cpu, emulated };

constexpr auto names_of(device_type) {
  return name_table{"cpu", "emulated"};
}

struct device_config {
  device_type type = device_type::cpu;
  std::string id;   ///< default: the type and its number, "cpu0"
  std::string kind; ///< what profiles call it; default: the type
  uint32_t lanes = 1;
  byte_count memory;
  emulation emulate;
  MILLRACE_FIELDS(device_config, type, id, kind, lanes, memory, emulate)
};

struct node_config {
  std::vector<node_role> roles;
  std::string peers = "tcp://127.0.0.1:*"; ///< where other nodes connect
  std::string advertise; ///< what others are told; default: as bound
  std::string clients;   ///< where clients connect (gateways)
  std::string operators; ///< where actor-shell connects
  std::string http;      ///< metrics and probes, HOST:PORT
  std::string data;      ///< directory for what must outlive the process
  std::string models;    ///< directory of bundles
  std::string rack;
  std::vector<device_config> devices;
  MILLRACE_FIELDS(node_config, roles, peers, advertise, clients, operators,
                  http, data, models, rack, devices)
};

struct log_config {
  log_level level = log_level::info;
  MILLRACE_FIELDS(log_config, level)
};

struct link_config {
  microseconds beat{100'000};
  microseconds timeout{1'000'000};
  MILLRACE_FIELDS(link_config, beat, timeout)
};

struct gateway_config {
  uint64_t max_requests = 65'536;
  byte_count max_bytes{512u << 20};
  byte_count max_client_bytes{256u << 20};
  MILLRACE_FIELDS(gateway_config, max_requests, max_bytes, max_client_bytes)
};

/// One file for all nodes of a cluster.
struct cluster_config {
  std::string cluster = "millrace";
  std::vector<std::string> seeds; ///< addresses of nodes to meet first
  std::map<std::string, node_config> nodes;
  std::vector<model_settings> models; ///< wanted from the start
  link_config link;
  gateway_config gateway;
  log_config log;
  MILLRACE_FIELDS(cluster_config, cluster, seeds, nodes, models, link, gateway,
                  log)
};

/// Reads and checks a config. Relative directories are taken from the file's.
/// Errors: bad_config with file, line and key, what was found and expected.
result<cluster_config> load_config(const std::string& path);

/// The same for a text; `file` is how errors name it.
result<cluster_config> parse_config(const std::string& text,
                                    const std::string& file);

/// The node a process shall be: the one named, or the only one there is.
/// Errors: bad_config, naming the nodes there are.
result<std::string> choose_node(const cluster_config& x,
                                const std::string& wanted);

} // namespace millrace
