// SPDX-License-Identifier: Apache-2.0
#include "shell/ask.hpp"

#include <algorithm>
#include <functional>
#include <set>

#include "runtime/nearest.hpp"
#include "runtime/text.hpp"

namespace millrace {

namespace {

template <class T>
std::optional<T> read_answer(operator_client& cluster,
                             const std::map<uint64_t, wire_message>& answers,
                             uint64_t id) {
  auto i = answers.find(id);
  if (i == answers.end())
    return std::nullopt;
  auto x = cluster.read<T>(i->second);
  return x ? std::optional<T>{std::move(*x)} : std::nullopt;
}

} // namespace

result<cluster_status> ask_all(operator_client& cluster) {
  // "." is the node this shell is connected to.
  auto members = cluster.ask<member_list>("./supervisor", get_members{});
  if (!members)
    return members.failure();
  cluster_status out;
  out.self = members->self;
  out.lost = members->lost;
  out.left = members->left;
  std::set<std::string> names{members->self.name};
  for (auto& m : members->peers)
    names.insert(m.name);
  std::map<std::string, uint64_t> statuses, loads;
  std::vector<uint64_t> ids;
  for (auto& name : names) {
    statuses[name] = cluster.send(name + "/supervisor", get_status{});
    loads[name] = cluster.send(name + "/monitor", get_load{});
    ids.push_back(statuses[name]);
    ids.push_back(loads[name]);
  }
  auto answers = cluster.wait(ids, shell_patience);
  for (auto& name : names) {
    if (auto x = read_answer<node_status>(cluster, answers, statuses[name]))
      out.nodes.push_back(std::move(*x));
    else
      out.silent.push_back(name);
    if (auto x = read_answer<node_load>(cluster, answers, loads[name]))
      out.load[name] = std::move(*x);
  }
  return out;
}

result<std::vector<member>> linked_nodes(operator_client& cluster) {
  auto members = cluster.ask<member_list>("./supervisor", get_members{});
  if (!members)
    return members.failure();
  std::vector<member> out{std::move(members->self)};
  for (auto& m : members->peers)
    out.push_back(std::move(m));
  return out;
}

result<std::vector<std::string>>
node_names(operator_client& cluster, const std::vector<std::string>& args,
           size_t place) {
  auto members = cluster.ask<member_list>("./supervisor", get_members{});
  if (!members)
    return members.failure();
  std::vector<std::string> names{members->self.name};
  for (auto& m : members->peers)
    names.push_back(m.name);
  if (place >= args.size())
    return names;
  auto& wanted = args[place];
  if (std::find(names.begin(), names.end(), wanted) == names.end())
    return error{ec::unavailable, no_such_node(wanted, *members), {}};
  return std::vector{wanted};
}

std::string departure_text(const lost_member& lost) {
  auto ago = format_duration(lost.ago) + " ago";
  return lost.reason == "left"
           ? lost.node.name + " left " + ago
           : lost.node.name + " is gone: " + lost.reason + " " + ago;
}

std::string no_such_node(const std::string& name, const member_list& members) {
  for (auto& x : members.lost)
    if (x.node.name == name)
      return "node " + name + " was lost " + format_duration(x.ago)
             + " ago: " + x.reason;
  for (auto& x : members.left)
    if (x.node.name == name)
      return "node " + departure_text(x);
  std::vector<std::string> names{members.self.name};
  for (auto& x : members.peers)
    names.push_back(x.name);
  return "no node " + shown(name) + suggestion(name, names) + "; there are "
         + joined(names, ", ", std::identity{});
}

std::string no_such_node(const std::string& name,
                         const cluster_status& status) {
  if (std::count(status.silent.begin(), status.silent.end(), name) != 0)
    return "node " + name + " did not answer within "
           + format_duration(shell_patience);
  member_list members{status.self, {}, status.lost, status.left};
  for (auto& n : status.nodes)
    if (n.node.name != status.self.name)
      members.peers.push_back(n.node);
  return no_such_node(name, members);
}

std::vector<router_queue> ask_queues(operator_client& cluster,
                                     const cluster_status& of) {
  std::vector<std::pair<std::string, uint64_t>> asked;
  std::vector<uint64_t> ids;
  for (auto& n : of.nodes)
    for (auto& x : n.actors)
      if (x.name.starts_with("router/")) {
        ids.push_back(cluster.send(n.node.name + "/" + x.name, get_queue{}));
        asked.emplace_back(n.node.name, ids.back());
      }
  auto answers = cluster.wait(ids, shell_patience);
  std::vector<router_queue> out;
  for (auto& [node, id] : asked)
    if (auto x = read_answer<queue_status>(cluster, answers, id))
      out.emplace_back(node, std::move(*x));
  return out;
}

result<std::string> find_controller(operator_client& cluster) {
  auto nodes = linked_nodes(cluster);
  if (!nodes)
    return nodes.failure();
  for (auto& m : *nodes)
    if (m.has_role("controller"))
      return m.name;
  return error{
    ec::unavailable, "no controller is linked with " + nodes->front().name, {}};
}

result<registry_answer> ask_registry(operator_client& cluster) {
  auto node = find_controller(cluster);
  if (!node)
    return node.failure();
  auto list = cluster.ask<model_list>(*node + "/registry", get_models{});
  if (!list)
    return list.failure();
  return registry_answer{std::move(*node), std::move(*list)};
}

} // namespace millrace
