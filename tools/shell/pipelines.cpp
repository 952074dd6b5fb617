// SPDX-License-Identifier: Apache-2.0

/// \file
/// The command `pipelines`: models in stages, and the batches in each stage.

#include <algorithm>
#include <cmath>
#include <iostream>

#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// A replica of a stage, as its router and its node report it.
struct stage_replica {
  std::string replica;
  std::string node; ///< empty: the node did not answer
  std::string device;
  uint64_t credit = 0;
  uint64_t batches = 0;
  uint64_t requests = 0;
  uint64_t unbound = 0;
  bool draining = false;
  bool completing = false; ///< the replica is loading the model's other layers
  replica_usage usage;     ///< over the last second
  MILLRACE_FIELDS(stage_replica, replica, node, device, credit, batches,
                  requests, unbound, draining, completing, usage)
};

/// Replicas that have the same layers.
struct stage {
  layer_range layers;
  std::vector<stage_replica> replicas;
  MILLRACE_FIELDS(stage, layers, replicas)
};

/// A model in stages, as the router of one gateway uses them.
struct pipeline {
  std::string model;
  uint64_t version = 0;
  std::string gateway;
  uint64_t layers = 1;
  uint64_t waiting = 0;
  uint64_t most = 0;
  uint64_t running = 0;
  std::vector<stage> stages;
  MILLRACE_FIELDS(pipeline, model, version, gateway, layers, waiting, most,
                  running, stages)
};

stage_replica describe(const served_replica& r, const cluster_status& of) {
  stage_replica out;
  out.replica = r.replica;
  out.credit = r.credit;
  out.batches = r.batches;
  out.requests = r.requests;
  out.unbound = r.unbound;
  out.draining = r.draining;
  for (auto& n : of.nodes)
    for (auto& status : n.replicas) {
      out.completing |= status.what.extends_replica == r.replica
                        && status.state == replica_condition::starting;
      if (status.what.replica != r.replica)
        continue;
      out.node = n.node.name;
      out.device = status.what.device;
      auto load = of.load.find(n.node.name);
      if (load == of.load.end())
        continue;
      for (auto& u : load->second.replicas)
        if (u.replica == r.replica)
          out.usage = u;
    }
  return out;
}

pipeline describe(const router_queue& x, const cluster_status& of) {
  auto& q = x.second;
  pipeline out{q.model,   q.version, x.first,   q.layers,
               q.waiting, q.most,    q.running, {}};
  std::map<layer_range, stage> stages;
  for (auto& r : q.replicas) {
    auto& s = stages[r.layers];
    s.layers = r.layers;
    s.replicas.push_back(describe(r, of));
  }
  for (auto& [layers, s] : stages)
    out.stages.push_back(std::move(s));
  return out;
}

bool is_in_parts(const pipeline& x) {
  return std::any_of(x.stages.begin(), x.stages.end(), [&](auto& s) {
    return s.layers != layer_range{0, x.layers};
  });
}

/// Arrivals, waiting and run times of batches over all replicas of a stage;
/// empty without batches.
std::string flow_of(const stage& x) {
  double arrivals = 0, cv = 0, waited = 0, served = 0;
  for (auto& r : x.replicas) {
    auto& u = r.usage;
    arrivals += u.arrivals;
    cv += u.arrivals * u.arrival_cv;
    waited += u.arrivals * u.waited;
    served += u.arrivals * u.served;
  }
  if (arrivals == 0)
    return {};
  auto time = [&](double sum) {
    return format_duration(nanoseconds{std::llround(1e9 * sum / arrivals)});
  };
  return ": " + fixed(arrivals, 0) + " batches/s come (CV "
         + fixed(cv / arrivals, 1) + "), wait " + time(waited) + ", run "
         + time(served);
}

/// A warning about layers that no replica has although other layers are served.
std::string gap_between(uint64_t first, uint64_t last) {
  return first < last
           ? "  |\n  !  no replica has layers " + std::to_string(first) + " to "
               + std::to_string(last - 1) + "\n"
           : "";
}

std::string bar(double part) {
  constexpr double widest = 10;
  auto n = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * widest + 0.5);
  return "[" + std::string(n, '#')
         + std::string(static_cast<size_t>(widest) - n, ' ') + "]";
}

std::string state_of(const stage_replica& x) {
  if (x.draining)
    return "drains";
  if (x.unbound > 0)
    return std::to_string(x.unbound) + " cannot go on";
  if (x.completing)
    return "loads the rest";
  if (x.credit > 0)
    return "";
  return x.requests > 0 ? "is full" : "no credit";
}

/// The replicas of a stage, one line each.
std::string replicas_of(const stage& s, size_t width) {
  table rows;
  for (auto& r : s.replicas)
    rows.push_back(
      {"  |  " + r.replica, r.node.empty() ? "?" : r.node + "/" + r.device,
       bar(r.usage.busy), fixed(r.usage.requests_per_second, 0) + " req/s",
       "has " + std::to_string(r.requests) + " in " + std::to_string(r.batches)
         + (r.batches == 1 ? " batch" : " batches"),
       "room for " + std::to_string(r.credit), state_of(r)});
  return table_text(rows, width, "  |      ");
}

/// The stages of a model in order, then the replicas of the whole model.
std::string drawing(const pipeline& x, size_t width) {
  auto out = wrapped(x.model + "." + std::to_string(x.version) + " at "
                       + x.gateway + ": " + std::to_string(x.waiting) + " of "
                       + std::to_string(x.most) + " requests wait, "
                       + std::to_string(x.running) + " are on their way",
                     width, 2)
             + "\n";
  uint64_t reached = 0;
  double rate = 0;
  auto draw = [&](const stage& s, const char* kind) {
    if (s.layers.last == x.layers)
      for (auto& r : s.replicas)
        rate += r.usage.requests_per_second;
    auto head = "  v  " + std::string{kind} + std::to_string(s.layers.first)
                + " to " + std::to_string(s.layers.last - 1) + " of "
                + std::to_string(x.layers);
    auto flow = flow_of(s);
    if (width > 0 && head.size() + flow.size() > width)
      flow = ":\n  |      " + flow.substr(2); // behind ": "
    out += "  |\n" + head + flow + "\n" + replicas_of(s, width);
  };
  auto is_whole = [&](const stage& s) {
    return s.layers == layer_range{0, x.layers};
  };
  for (auto& s : x.stages)
    if (!is_whole(s)) {
      out += gap_between(reached, s.layers.first);
      reached = std::max(reached, s.layers.last);
      draw(s, "layers ");
    }
  if (reached > 0)
    out += gap_between(reached, x.layers);
  for (auto& s : x.stages)
    if (is_whole(s))
      draw(s, reached > 0 ? "or whole, layers " : "layers ");
  return out + "  |\n  v  answers, " + fixed(rate, 0) + " a second\n";
}

std::vector<pipeline> pipelines_of(const std::vector<router_queue>& queues,
                                   const cluster_status& x,
                                   const std::string& model) {
  std::vector<pipeline> out;
  for (auto& queue : queues) {
    auto y = describe(queue, x);
    if (model.empty() ? is_in_parts(y) : y.model == model)
      out.push_back(std::move(y));
  }
  return out;
}

} // namespace

std::string pipelines_text(const std::vector<router_queue>& queues,
                           const cluster_status& status,
                           const std::string& model, size_t width) {
  std::string out;
  for (auto& y : pipelines_of(queues, status, model))
    out += drawing(y, width);
  return out;
}

int show_pipelines(shell& in, const arguments& args) {
  auto x = ask_all(in.cluster);
  if (!x)
    return complain(in, x.failure().text);
  auto queues = ask_queues(in.cluster, *x);
  auto model = args.empty() ? std::string{} : args[0];
  auto all = pipelines_of(queues, *x, model);
  if (!args.empty() && all.empty())
    return complain(in, "no gateway has seen a replica of " + shown(args[0]));
  if (in.form == output_form::json)
    return print_json(json{{"pipelines", to_json(all)}});
  if (all.empty())
    std::cout << "no model is served in parts\n";
  std::cout << pipelines_text(queues, *x, model, terminal_width())
            << std::flush;
  return exit_ok;
}

} // namespace millrace
