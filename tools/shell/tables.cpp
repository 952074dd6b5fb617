// SPDX-License-Identifier: Apache-2.0
#include "shell/tables.hpp"

#include <algorithm>

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// What a device runs on with so much longer than anybody waits is a trouble.
constexpr microseconds longest_overdue = 5s;

std::string roles_of(const member& x) {
  return joined(x.roles, "+", [](auto& r) { return r; });
}

/// What a node gets nothing of although it was to.
std::vector<std::string> troubles(const chain_list& x) {
  std::vector<std::string> out;
  for (auto& chain : x.chains)
    for (auto& hop : chain.hops)
      if (!hop.trouble.empty())
        out.push_back(hop.node + " gets nothing of " + chain.model
                      + " now; it gave up " + hop.trouble);
  return out;
}

} // namespace

bool is_usable(const node_status& x, const std::string& device) {
  return std::find(x.unusable.begin(), x.unusable.end(), device)
         == x.unusable.end();
}

size_t count_ready(const node_status& x) {
  return static_cast<size_t>(
    std::count_if(x.replicas.begin(), x.replicas.end(),
                  [](auto& r) { return r.state == replica_condition::ready; }));
}

std::string summary(const cluster_status& x) {
  size_t ready = 0, in_service = 0;
  for (auto& n : x.nodes) {
    ready += count_ready(n);
    in_service += n.state == node_condition::ready;
  }
  return std::to_string(x.nodes.size() + x.silent.size()) + " nodes, "
         + std::to_string(in_service) + " in service, " + std::to_string(ready)
         + " replicas ready";
}

std::vector<std::string> troubles(const cluster_status& x) {
  std::vector<std::string> out;
  for (auto& n : x.nodes)
    if (n.state != node_condition::ready)
      out.push_back(n.node.name + " is " + std::string{to_string(n.state)}
                    + ": " + n.reason);
  for (auto& n : x.nodes)
    for (auto& text : n.troubles)
      out.push_back(n.node.name + ": " + text);
  for (auto& [node, load] : x.load)
    for (auto& d : load.devices)
      if (d.overdue > longest_overdue)
        out.push_back(node + ": " + d.device + " has run on for "
                      + format_duration(d.overdue)
                      + " with what nobody waits for any more; a model in a"
                        " process of its own is ended in time, one in threads"
                        " (trusted) only by a restart of the node");
  for (auto& n : x.lost)
    out.push_back(n.node.name + " is lost since " + format_duration(n.ago)
                  + ": " + n.reason);
  for (auto& n : x.nodes)
    for (auto& r : n.replicas)
      if (r.state == replica_condition::failed)
        out.push_back(r.what.replica + " failed on " + n.node.name + ": "
                      + r.reason);
  return out;
}

std::vector<std::string> troubles(const model_list& x) {
  std::vector<std::string> out;
  for (auto& m : x.models)
    if (m.ready < m.wanted || !m.note.empty())
      out.push_back(m.settings.model + " has " + std::to_string(m.ready)
                    + " of " + std::to_string(m.wanted) + " replica(s)"
                    + (m.starting > 0
                         ? ", " + std::to_string(m.starting) + " starting"
                         : "")
                    + (m.note.empty() ? "" : ": " + m.note));
  return out;
}

std::vector<std::string> troubles(operator_client& cluster,
                                  const cluster_status& x,
                                  const result<registry_answer>& models) {
  auto out = troubles(x);
  auto add = [&](const std::vector<std::string>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  add(models ? troubles(models->list) : std::vector{models.failure().text});
  if (auto chains = ask_controller<chain_list>(cluster, "chains", get_chains{}))
    add(troubles(*chains));
  return out;
}

table node_table(const cluster_status& x) {
  table rows{{"NODE", "STATE", "ROLES", "START", "UPTIME", "REPLICAS", "CPUS",
              "MEMORY"}};
  for (auto& n : x.nodes) {
    auto load = x.load.find(n.node.name);
    auto known = load != x.load.end();
    rows.push_back({n.node.name, std::string{to_string(n.state)},
                    roles_of(n.node), std::to_string(n.node.incarnation),
                    format_duration(n.uptime), std::to_string(count_ready(n)),
                    known ? fixed(load->second.process_cpus, 1) : "-",
                    known ? format_bytes(load->second.resident) : "-"});
  }
  for (auto& name : x.silent)
    rows.push_back({name, "silent", "?", "?", "?", "?", "?", "?"});
  for (auto& n : x.lost)
    rows.push_back({n.node.name, "lost", roles_of(n.node),
                    std::to_string(n.node.incarnation), "-", "-", "-", "-"});
  return rows;
}

/// What its driver says of a GPU: "87 %, 12GiB, 1980 MHz, 410 W".
std::string gpu_text(const device_usage& x) {
  if (x.gpu_clock == 0)
    return "-";
  return fixed(100 * x.gpu_busy, 0) + " %, " + format_bytes(x.gpu_memory) + ", "
         + std::to_string(x.gpu_clock) + " MHz, " + fixed(x.gpu_watts, 0)
         + " W";
}

table device_table(const cluster_status& x) {
  table rows{{"DEVICE", "NODE", "KIND", "LANES", "BUSY", "BATCHES/S", "WAITING",
              "MEMORY", "GPU"}};
  for (auto& n : x.nodes)
    for (auto& d : n.devices) {
      auto u = usage_of(x, n.node.name, &node_load::devices,
                        &device_usage::device, d.id);
      rows.push_back({d.id, n.node.name, d.kind, std::to_string(d.lanes),
                      !is_usable(n, d.id) ? "unusable"
                      : u                 ? fixed(100 * u->busy, 0) + " %"
                                          : "-",
                      u ? fixed(u->batches_per_second, 0) : "-",
                      u ? std::to_string(u->waiting) : "-",
                      u ? format_bytes(u->memory) : "-",
                      u ? gpu_text(*u) : "-"});
    }
  return rows;
}

table replica_table(const cluster_status& x) {
  table rows{{"REPLICA", "NODE", "DEVICE", "STATE", "REQ/S", "BATCH", "MEMORY",
              "LOAD", "WARM-UP"}};
  for (auto& n : x.nodes)
    for (auto& r : n.replicas) {
      auto u = usage_of(x, n.node.name, &node_load::replicas,
                        &replica_usage::replica, r.what.replica);
      rows.push_back({r.what.replica, n.node.name, r.what.device,
                      std::string{to_string(r.state)},
                      u ? fixed(u->requests_per_second, 0) : "-",
                      u ? fixed(u->batch, 1) : "-", format_bytes(r.memory),
                      format_duration(r.load), format_duration(r.warm_up)});
    }
  return rows;
}

table model_table(const model_list& x) {
  table rows{
    {"MODEL", "VERSION", "WANTED", "READY", "STARTING", "TRUSTED", "NOTE"}};
  for (auto& m : x.models)
    rows.push_back({m.settings.model,
                    m.settings.version.empty() ? "default" : m.settings.version,
                    std::to_string(m.wanted), std::to_string(m.ready),
                    std::to_string(m.starting),
                    m.settings.trusted ? "yes" : "no", m.note});
  return rows;
}

table queue_table(const std::vector<router_queue>& x) {
  table rows{{"MODEL AND REPLICAS", "GATEWAY", "WAITING", "OLDEST", "RUNNING",
              "TAKES", "CREDIT"}};
  for (auto& [gateway, q] : x) {
    rows.push_back({q.model + "." + std::to_string(q.version), gateway,
                    std::to_string(q.waiting) + " of " + std::to_string(q.most),
                    format_duration(q.oldest), std::to_string(q.running),
                    format_duration(q.expected),
                    q.replicas.empty() ? "no replica" : ""});
    for (auto& r : q.replicas)
      rows.push_back({"  " + r.replica, "", "", "", std::to_string(r.requests),
                      "", r.draining ? "drains" : std::to_string(r.credit)});
  }
  return rows;
}

} // namespace millrace
