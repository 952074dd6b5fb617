// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Requests that the shell sends to a cluster, through the node that it is
/// connected to ("our node").

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/operator_client.hpp"
#include "runtime/units.hpp"
#include "transport/messages/all.hpp"

namespace millrace {

/// Timeout for the answer of one node; the shell continues without that answer.
constexpr microseconds shell_patience = 2s;

/// Status of every node that answered, and the names of the others.
struct cluster_status {
  member self;
  std::vector<node_status> nodes;
  std::vector<std::string> silent;
  std::vector<lost_member> lost; ///< have no link to our node now
  std::vector<lost_member> left; ///< left in good order, or not seen yet
  std::map<std::string, node_load> load;
};

/// Requests the status of all nodes that are linked with ours. Nodes without an
/// answer within `shell_patience` are listed in `silent`. Errors: unavailable
/// when our node does not answer.
result<cluster_status> ask_all(operator_client& cluster);

/// Our node first, then the nodes linked with it. Errors: as ask_all.
result<std::vector<member>> linked_nodes(operator_client& cluster);

/// The names of linked_nodes; or only args[place], if that argument was given.
/// Errors: unavailable when no linked node has that name.
result<std::vector<std::string>>
node_names(operator_client& cluster, const std::vector<std::string>& args = {},
           size_t place = 0);

/// The name of the node with the controller's actors. Errors: unavailable.
result<std::string> find_controller(operator_client& cluster);

/// Sends a request to an actor of the controller. Errors: as find_controller,
/// and the actor's own.
template <class Answer, class Request>
result<Answer> ask_controller(operator_client& cluster,
                              const std::string& actor,
                              const Request& request) {
  auto node = find_controller(cluster);
  if (!node)
    return node.failure();
  return cluster.ask<Answer>(*node + "/" + actor, request);
}

/// "beta left 3 min ago", for a node in `cluster_status::left`.
std::string departure_text(const lost_member& lost);

/// The error text for a node name that no linked node has, and the known names.
std::string no_such_node(const std::string& name, const member_list& members);
std::string no_such_node(const std::string& name, const cluster_status& status);

/// The node of a gateway, and the status of one of its routers' queues.
using router_queue = std::pair<std::string, queue_status>;

/// The queues of all routers on the nodes of this status.
std::vector<router_queue> ask_queues(operator_client& cluster,
                                     const cluster_status& of);

/// Node name to error text.
using failed_nodes = std::map<std::string, std::string>;

template <class Answer>
struct answers_of_nodes {
  std::map<std::string, Answer> good;
  failed_nodes failed;
  bool forbidden = false; ///< some node refused the request: the shell's key
                          ///< lacks the permission
};

/// Sends the same request to one actor on each of these nodes.
template <class Answer, class Request>
answers_of_nodes<Answer>
ask_each(operator_client& cluster, const std::vector<std::string>& nodes,
         const std::string& actor, const Request& request) {
  std::map<std::string, uint64_t> ids;
  std::vector<uint64_t> all;
  for (auto& node : nodes)
    all.push_back(ids[node] = cluster.send(node + "/" + actor, request));
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

/// As ask_each, for a request that changes state. Our node gets the request
/// first: if our node refuses the key, the other nodes do not get the request.
/// Three refused requests would make nodes ignore the key.
template <class Request>
answers_of_nodes<ack>
order_each(operator_client& cluster, const std::vector<std::string>& nodes,
           const std::string& actor, const Request& request) {
  auto out = ask_each<ack>(cluster, {nodes.front()}, actor, request);
  std::vector<std::string> others{nodes.begin() + 1, nodes.end()};
  if (out.forbidden) {
    for (auto& node : others)
      out.failed[node] = "was not asked";
    return out;
  }
  auto rest = ask_each<ack>(cluster, others, actor, request);
  out.good.merge(rest.good);
  out.failed.merge(rest.failed);
  return out;
}

/// The registered models, and the node of the registry.
struct registry_answer {
  std::string node;
  model_list list;
};

/// Requests the models from the registry. Errors: unavailable without a
/// controller.
result<registry_answer> ask_registry(operator_client& cluster);

/// The usage of one device or replica in the load that its node's monitor
/// reported.
template <class Usage>
std::optional<Usage>
usage_of(const cluster_status& status, const std::string& node,
         std::vector<Usage> node_load::*list, std::string Usage::*key,
         const std::string& wanted) {
  auto load = status.load.find(node);
  if (load == status.load.end())
    return std::nullopt;
  for (auto& u : load->second.*list)
    if (u.*key == wanted)
      return u;
  return std::nullopt;
}

} // namespace millrace
