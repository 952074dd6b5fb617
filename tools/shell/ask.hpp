// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// What the shell asks a cluster, through the one node it is connected to.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/operator_client.hpp"
#include "runtime/units.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// How long a node may take to answer before the shell goes on without it.
constexpr microseconds shell_patience = 2s;

/// What every node says of itself, and who did not answer.
struct cluster_status {
  member self;
  std::vector<node_status> nodes;
  std::vector<std::string> silent;
  std::vector<lost_member> lost; ///< without a link to ours
  std::vector<lost_member> left; ///< in good order, or not seen yet
  std::map<std::string, node_load> load;
};

/// Asks all nodes that are linked with ours; those that do not answer within
/// two seconds are silent. Errors: unavailable when ours does not answer.
result<cluster_status> ask_all(operator_client& cluster);

/// Our node, and after it those that are linked with it. Errors: as ask_all.
result<std::vector<member>> linked_nodes(operator_client& cluster);

/// The name of our node, and after it of those that are linked with it; or the
/// one name at that place of a command's arguments.
result<std::vector<std::string>>
node_names(operator_client& cluster, const std::vector<std::string>& args = {},
           size_t place = 0);

/// The node that has the controller's actors. Errors: unavailable.
result<std::string> find_controller(operator_client& cluster);

/// Asks one of these. Errors: as find_controller's, and what it answers.
template <class Answer, class Request>
result<Answer> ask_controller(operator_client& cluster,
                              const std::string& actor, const Request& x) {
  auto node = find_controller(cluster);
  if (!node)
    return node.failure();
  return cluster.ask<Answer>(*node + "/" + actor, x);
}

/// "beta left 3 min ago", for a node in `cluster_status::left`.
std::string departure_text(const lost_member& x);

/// The error text for a node name that no linked node has.
std::string no_such_node(const std::string& name, const member_list& members);
std::string no_such_node(const std::string& name, const cluster_status& x);

/// A router's queue, and its gateway's node.
using router_queue = std::pair<std::string, queue_status>;

/// What waits in every router of those nodes.
std::vector<router_queue> ask_queues(operator_client& cluster,
                                     const cluster_status& of);

/// Nodes, and why each did not do what it was asked.
using failed_nodes = std::map<std::string, std::string>;

template <class Answer>
struct answers_of_nodes {
  std::map<std::string, Answer> good;
  failed_nodes failed;
  bool forbidden = false; ///< somebody said that this key may not
};

/// Asks the same of one actor on each of those nodes.
template <class Answer, class Request>
answers_of_nodes<Answer> ask_each(operator_client& cluster,
                                  const std::vector<std::string>& nodes,
                                  const std::string& actor, const Request& x) {
  std::map<std::string, uint64_t> ids;
  std::vector<uint64_t> all;
  for (auto& node : nodes)
    all.push_back(ids[node] = cluster.send(node + "/" + actor, x));
  auto answers = cluster.wait(all, shell_patience);
  answers_of_nodes<Answer> out;
  for (auto& [node, id] : ids)
    if (auto i = answers.find(id); i == answers.end())
      out.failed[node] = "no answer within " + format_duration(shell_patience);
    else if (auto y = cluster.read<Answer>(i->second); y)
      out.good.emplace(node, std::move(*y));
    else {
      out.failed[node] = y.failure().text;
      out.forbidden |= y.failure().code == ec::forbidden;
    }
  return out;
}

/// The same for an order, our node alone before the others: it judges what
/// this key may say, and three such offences would have it not listened to.
template <class Request>
answers_of_nodes<ack> order_each(operator_client& cluster,
                                 const std::vector<std::string>& nodes,
                                 const std::string& actor, const Request& x) {
  auto out = ask_each<ack>(cluster, {nodes.front()}, actor, x);
  std::vector<std::string> others{nodes.begin() + 1, nodes.end()};
  if (out.forbidden) {
    for (auto& node : others)
      out.failed[node] = "was not asked";
    return out;
  }
  auto rest = ask_each<ack>(cluster, others, actor, x);
  out.good.merge(rest.good);
  out.failed.merge(rest.failed);
  return out;
}

/// What is registered, and the node that said so.
struct registry_answer {
  std::string node;
  model_list list;
};

/// Asks the controller. Errors: unavailable when there is none.
result<registry_answer> ask_registry(operator_client& cluster);

/// What a monitor says of one of its node's devices or replicas.
template <class Usage>
std::optional<Usage> usage_of(const cluster_status& x, const std::string& node,
                              std::vector<Usage> node_load::*list,
                              std::string Usage::*key,
                              const std::string& wanted) {
  auto load = x.load.find(node);
  if (load == x.load.end())
    return std::nullopt;
  for (auto& u : load->second.*list)
    if (u.*key == wanted)
      return u;
  return std::nullopt;
}

} // namespace millrace
