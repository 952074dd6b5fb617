// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "millrace/print.hpp"
#include "shell/ask.hpp"

/// \file
/// The tables that the shell prints: once for a command, repeatedly for top.

namespace millrace {

/// Whether this device of the node can run batches.
bool is_usable(const node_status& node, const std::string& device);

/// The number of ready replicas on the node.
size_t count_ready(const node_status& node);

/// All nodes, including nodes that are silent, lost, or have left.
table node_table(const cluster_status& status);
table device_table(const cluster_status& status);
table replica_table(const cluster_status& status);
/// Registered models with the load that gateways report: requests/s, p50 and
/// p99 of the latency, and the share of answers that are errors.
table model_table(const model_list& models, const demand_list& demand);
table queue_table(const std::vector<router_queue>& queues);
/// Cold start times of replicas, with a time line (starts.cpp).
table start_table(const std::vector<replica_start>& starts);

/// A request in the memory of its gateway (requests.cpp).
struct told_story {
  std::string gateway;
  request_story x;
};
table story_table(const std::vector<told_story>& stories);
std::string story_text(const told_story& story, size_t width);

/// Models in stages as their routers use them (pipelines.cpp). `model` selects
/// one model, with or without stages; empty: all models in stages.
std::string pipelines_text(const std::vector<router_queue>& queues,
                           const cluster_status& status,
                           const std::string& model, size_t width);

/// The line of keys for top; `hidden`: sections that are not shown
/// (screen.cpp).
std::string key_line(const std::set<char>& hidden, size_t width);

/// Findings that are not good, the worst first, each with advice; then one line
/// for all good checks (doctor.cpp). `between`: findings from comparing nodes.
std::string doctor_text(const std::map<std::string, examination>& nodes,
                        const std::vector<finding>& between, size_t width);

/// Problems, one line each; empty without problems.
std::vector<std::string> troubles(const cluster_status& status);
std::vector<std::string> troubles(const model_list& models);

/// Problems of the whole cluster. Sends further requests to the controller.
std::vector<std::string> troubles(operator_client& cluster,
                                  const cluster_status& status,
                                  const result<registry_answer>& models);

/// Nodes that left or were not seen yet, one line each.
std::vector<std::string> departures(const cluster_status& status);

/// "3 nodes, 3 in service, 4 replicas ready".
std::string summary(const cluster_status& status);

} // namespace millrace
