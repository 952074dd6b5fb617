// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "millrace/print.hpp"
#include "shell/ask.hpp"

/// \file
/// What the shell shows, as rows: for a command once, for top again and again.

namespace millrace {

/// Whether something can run on that device of its.
bool is_usable(const node_status& x, const std::string& device);

/// How many of its replicas can be used.
size_t count_ready(const node_status& x);

/// Every node, also those that do not answer, are lost, or left.
table node_table(const cluster_status& x);
table device_table(const cluster_status& x);
table replica_table(const cluster_status& x);
/// Registered models, each with the load that gateways report: requests/s, p50
/// and p99 of the latency, and the part of answers that are errors.
table model_table(const model_list& x, const demand_list& demand);
table queue_table(const std::vector<router_queue>& x);
/// How long replicas took to become ready, with a time line (starts.cpp).
table start_table(const std::vector<replica_start>& x);

/// A request as its gateway remembers it (requests.cpp).
struct told_story {
  std::string gateway;
  request_story x;
};
table story_table(const std::vector<told_story>& x);
std::string story_text(const told_story& x, size_t width);

/// Models in parts as their routers lead requests through them (pipelines.cpp).
/// A model is drawn when it is named, or, without a name, when it is in parts.
std::string pipelines_text(const std::vector<router_queue>& queues,
                           const cluster_status& x, const std::string& model,
                           size_t width);

/// The keys of top, with the sections that are hidden (screen.cpp).
std::string key_line(const std::set<char>& hidden, size_t width);

/// What is not good on hosts, the worst first, with what to do about it; then a
/// line that sums up what is good (doctor.cpp). `between`: findings of nodes
/// compared with each other.
std::string doctor_text(const std::map<std::string, examination>& nodes,
                        const std::vector<finding>& between, size_t width);

/// What is wrong, a line each; empty when nothing is.
std::vector<std::string> troubles(const cluster_status& x);
std::vector<std::string> troubles(const model_list& x);

/// Of the whole cluster, for which it is asked once more.
std::vector<std::string> troubles(operator_client& cluster,
                                  const cluster_status& x,
                                  const result<registry_answer>& models);

/// Nodes that left or are not there yet, a line each.
std::vector<std::string> departures(const cluster_status& x);

/// "3 nodes, 3 in service, 4 replicas ready".
std::string summary(const cluster_status& x);

} // namespace millrace
