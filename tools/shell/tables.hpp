// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/print.hpp"
#include "shell/ask.hpp"

/// \file
/// What the shell shows, as rows: for a command once, for top again and again.

namespace millrace {

/// Whether something can run on that device of its.
bool is_usable(const node_status& x, const std::string& device);

/// How many of its replicas can be used.
size_t count_ready(const node_status& x);

/// Every node, those that do not answer and those that are lost.
table node_table(const cluster_status& x);
table device_table(const cluster_status& x);
table replica_table(const cluster_status& x);
table model_table(const model_list& x);
table queue_table(const std::vector<router_queue>& x);

/// What is wrong, a line each; empty when nothing is.
std::vector<std::string> troubles(const cluster_status& x);
std::vector<std::string> troubles(const model_list& x);

/// Of the whole cluster, for which it is asked once more.
std::vector<std::string> troubles(operator_client& cluster,
                                  const cluster_status& x,
                                  const result<registry_answer>& models);

/// "3 nodes, 3 in service, 4 replicas ready".
std::string summary(const cluster_status& x);

} // namespace millrace
