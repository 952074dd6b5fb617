// SPDX-License-Identifier: Apache-2.0
#include "shell/tables.hpp"

#include <algorithm>
#include <cmath>

#include "runtime/text.hpp"

namespace millrace {

namespace {

/// How long a batch may run after the last deadline of its requests before the
/// device counts as a problem.
constexpr microseconds longest_overdue = 5s;

std::string roles_of(const member& x) {
  return joined(x.roles, "+", [](auto& r) { return r; });
}

/// Problems of transfers: hosts without a source.
std::vector<std::string> troubles(const chain_list& x) {
  std::vector<std::string> out;
  for (auto& chain : x.chains)
    for (auto& hop : chain.hops)
      if (!hop.trouble.empty())
        out.push_back(hop.node + " receives nothing of " + chain.model
                      + " now; the last source failed: " + hop.trouble);
  return out;
}

} // namespace

bool is_usable(const node_status& node, const std::string& device) {
  return std::find(node.unusable.begin(), node.unusable.end(), device)
         == node.unusable.end();
}

size_t count_ready(const node_status& node) {
  return static_cast<size_t>(
    std::count_if(node.replicas.begin(), node.replicas.end(),
                  [](auto& r) { return r.state == replica_condition::ready; }));
}

std::string summary(const cluster_status& status) {
  size_t ready = 0, in_service = 0;
  for (auto& n : status.nodes) {
    ready += count_ready(n);
    in_service += n.state == node_condition::ready;
  }
  auto gone = [](size_t n, const char* how) {
    return n > 0 ? ", " + std::to_string(n) + how : std::string{};
  };
  return std::to_string(status.nodes.size() + status.silent.size()) + " nodes, "
         + std::to_string(in_service) + " in service"
         + gone(status.lost.size(), " lost") + gone(status.left.size(), " gone")
         + ", " + std::to_string(ready) + " replicas ready";
}

std::vector<std::string> departures(const cluster_status& status) {
  std::vector<std::string> out;
  for (auto& n : status.left)
    out.push_back(departure_text(n));
  return out;
}

std::vector<std::string> troubles(const cluster_status& status) {
  std::vector<std::string> out;
  for (auto& n : status.nodes)
    if (n.state != node_condition::ready)
      out.push_back(n.node.name + " is " + std::string{to_string(n.state)}
                    + ": " + n.reason);
  for (auto& n : status.nodes)
    for (auto& text : n.troubles)
      out.push_back(n.node.name + ": " + text);
  for (auto& [node, load] : status.load)
    for (auto& d : load.devices)
      if (d.overdue > longest_overdue)
        out.push_back(node + ": " + d.device + " has run on for "
                      + format_duration(d.overdue)
                      + " with a batch past all its deadlines; a model in a"
                        " process of its own is stopped in time, a trusted one"
                        " (in threads) only by a restart of the node");
  for (auto& n : status.lost)
    out.push_back(n.node.name + " was lost " + format_duration(n.ago)
                  + " ago: " + n.reason);
  for (auto& n : status.nodes)
    for (auto& r : n.replicas)
      if (r.state == replica_condition::failed)
        out.push_back(r.what.replica + " failed on " + n.node.name + ": "
                      + r.reason);
  return out;
}

std::vector<std::string> troubles(const model_list& models) {
  std::vector<std::string> out;
  for (auto& m : models.models)
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
                                  const cluster_status& status,
                                  const result<registry_answer>& models) {
  auto out = troubles(status);
  auto add = [&](const std::vector<std::string>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  add(models ? troubles(models->list) : std::vector{models.failure().text});
  if (auto chains = ask_controller<chain_list>(cluster, "chains", get_chains{}))
    add(troubles(*chains));
  return out;
}

table node_table(const cluster_status& status) {
  table rows{{"NODE", "STATE", "ROLES", "START", "UPTIME", "REPLICAS", "CPUS",
              "MEMORY"}};
  for (auto& n : status.nodes) {
    auto load = status.load.find(n.node.name);
    auto known = load != status.load.end();
    rows.push_back({n.node.name, std::string{to_string(n.state)},
                    roles_of(n.node), std::to_string(n.node.incarnation),
                    format_duration(n.uptime), std::to_string(count_ready(n)),
                    known ? fixed(load->second.process_cpus, 1) : "-",
                    known ? format_bytes(load->second.resident) : "-"});
  }
  for (auto& name : status.silent)
    rows.push_back({name, "silent", "?", "?", "?", "?", "?", "?"});
  auto add_gone = [&](const lost_member& n, const char* state) {
    rows.push_back(
      {n.node.name, state, roles_of(n.node),
       n.node.incarnation > 0 ? std::to_string(n.node.incarnation) : "-",
       format_duration(n.ago) + " ago", "-", "-", "-"});
  };
  for (auto& n : status.lost)
    add_gone(n, "lost");
  for (auto& n : status.left)
    add_gone(n, n.reason == "left" ? "left" : "gone");
  return rows;
}

/// The readings of a GPU's driver: "87 %, 12GiB, 1980 MHz, 410 W".
std::string gpu_text(const device_usage& x) {
  if (x.gpu_clock == 0)
    return "-";
  return fixed(100 * x.gpu_busy, 0) + " %, " + format_bytes(x.gpu_memory) + ", "
         + std::to_string(x.gpu_clock) + " MHz, " + fixed(x.gpu_watts, 0)
         + " W";
}

/// "cap 2, 1 a replica": how a device is shared.
std::string sharing_text(const device_sharing& x) {
  std::string out{to_string(x.mode)};
  if (x.at_once > 0)
    out += " " + std::to_string(x.at_once);
  if (x.per_replica > 0)
    out += ", " + std::to_string(x.per_replica) + " a replica";
  return out;
}

table device_table(const cluster_status& status) {
  table rows{{"DEVICE", "NODE", "KIND", "LANES", "SHARING", "BUSY", "BATCHES/S",
              "WAITING", "MEMORY", "GPU"}};
  for (auto& n : status.nodes)
    for (auto& d : n.devices) {
      auto u = usage_of(status, n.node.name, &node_load::devices,
                        &device_usage::device, d.id);
      rows.push_back({d.id, n.node.name, d.kind, std::to_string(d.lanes),
                      sharing_text(d.sharing),
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

table replica_table(const cluster_status& status) {
  table rows{{"REPLICA", "NODE", "DEVICE", "STATE", "REQ/S", "BATCH", "LIMIT",
              "AT ONCE", "MEMORY", "LOAD", "WARM-UP"}};
  for (auto& n : status.nodes)
    for (auto& r : n.replicas) {
      auto u = usage_of(status, n.node.name, &node_load::replicas,
                        &replica_usage::replica, r.what.replica);
      rows.push_back({r.what.replica, n.node.name, r.what.device,
                      std::string{to_string(r.state)},
                      u ? fixed(u->requests_per_second, 0) : "-",
                      u ? fixed(u->batch, 1) : "-",
                      std::to_string(r.what.tuned.batch),
                      r.what.tuned.concurrency == 0
                        ? "lanes"
                        : std::to_string(r.what.tuned.concurrency),
                      format_bytes(r.memory), format_duration(r.load),
                      format_duration(r.warm_up)});
    }
  return rows;
}

/// A duration without blanks, for scripts that split columns at blanks.
std::string latency_text(double x) {
  if (x <= 0)
    return "-";
  auto out = format_duration(microseconds{std::llround(1e6 * x)});
  std::erase(out, ' ');
  return out;
}

table model_table(const model_list& models, const demand_list& demand) {
  table rows{{"MODEL", "REQ/S", "P50", "P99", "ERRORS", "READY", "WANTED",
              "VERSION", "TRUSTED"}};
  auto any_note = std::any_of(models.models.begin(), models.models.end(),
                              [](auto& m) { return !m.note.empty(); });
  if (any_note)
    rows[0].push_back("NOTE");
  for (auto& m : models.models) {
    auto load =
      std::find_if(demand.models.begin(), demand.models.end(),
                   [&](auto& y) { return y.model == m.settings.model; });
    std::vector<std::string> row{m.settings.model, "-", "-", "-", "-"};
    if (load != demand.models.end())
      row = {m.settings.model, fixed(load->rate, load->rate < 10 ? 1 : 0),
             latency_text(load->latency_p50), latency_text(load->latency_p99),
             load->arrived == 0
               ? "-"
               : fixed(100 * load->errors, load->errors < 0.1 ? 1 : 0) + "%"};
    row.insert(row.end(),
               {std::to_string(m.ready)
                  + (m.starting > 0 ? "+" + std::to_string(m.starting) : ""),
                std::to_string(m.wanted),
                m.settings.version.empty() ? "default" : m.settings.version,
                m.settings.trusted ? "yes" : "no"});
    if (any_note)
      row.push_back(m.note);
    rows.push_back(std::move(row));
  }
  return rows;
}

table queue_table(const std::vector<router_queue>& queues) {
  table rows{{"MODEL AND REPLICAS", "GATEWAY", "WAITING", "OLDEST", "RUNNING",
              "TAKES", "CREDIT"}};
  for (auto& [gateway, q] : queues) {
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
