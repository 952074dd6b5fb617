// SPDX-License-Identifier: Apache-2.0
#include "millrace/real_run.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>
#include <unordered_map>

#include "client/client.hpp"
#include "client/operator_client.hpp"
#include "millrace/child.hpp"
#include "millrace/loopback.hpp"
#include "millrace/real_bundles.hpp"
#include "millrace/real_faults.hpp"
#include "runtime/bytes.hpp"
#include "runtime/hash.hpp"
#include "runtime/log.hpp"
#include "simulator/log_line.hpp"
#include "simulator/model.hpp"
#include "simulator/node.hpp"
#include "simulator/workload.hpp"

namespace millrace {

namespace {

using namespace simulator;

/// Time limit for the start of the cluster.
constexpr auto patience = 60s;

void write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(
    std::filesystem::path{path}.parent_path());
  std::ofstream{path} << text;
}

class real_run {
public:
  real_run(const loaded_scenario& what, std::string directory)
    : what_(what),
      directory_(std::filesystem::absolute(directory).string()) {}

  result<real_record> run(uint64_t seed,
                          const std::function<void(double)>& progress) {
    auto asked = workload::make(what_, seed);
    if (!asked)
      return asked.failure();
    if (auto done = write_files(); !done)
      return done.failure();
    for (auto& [name, node] : config_.nodes)
      services_[name] = std::make_unique<service>(
        std::vector<std::string>{"node", "--config", directory_ + "/real.yaml",
                                 "--node", name},
        log_of(name));
    if (auto up = wait_until_ready(); !up)
      return up.failure();
    real_record out;
    if (auto done = drive(*asked, out, progress); !done)
      return done.failure();
    services_.erase(controller_); // first, so that it does not restart replicas
    services_.clear();
    for (auto& [name, node] : config_.nodes)
      read_log(log_of(name), out);
    return out;
  }

private:
  std::string log_of(const std::string& node) const {
    return directory_ + "/" + node + ".log";
  }

  /// Writes the scenario's cluster as configuration for this host.
  result<void> write_files() {
    // Removes an earlier real run; other directories are refused.
    std::error_code failed;
    if (std::filesystem::exists(directory_)
        && !std::filesystem::exists(directory_ + "/real.yaml"))
      return error{ec::bad_request,
                   directory_
                     + " exists and was not made by a real run; expected a"
                       " new directory as --out",
                   {}};
    std::filesystem::remove_all(directory_, failed);
    std::filesystem::create_directories(directory_, failed);
    config_ = what_.cluster;
    config_.seeds.clear();
    config_.profiles = directory_ + "/profiles.yaml";
    for (auto& [name, node] : config_.nodes) {
      auto peers = free_address(), clients = free_address(),
           operators = free_address();
      for (auto* x : {&peers, &clients, &operators})
        if (!*x)
          return x->failure();
      node.peers = *peers;
      node.advertise.clear();
      node.bulk.clear();
      node.http.clear();
      node.clients = node.operators = "";
      auto has = [&roles = node.roles](node_role x) {
        return std::count(roles.begin(), roles.end(), x) != 0;
      };
      if (has(node_role::gateway))
        gateways_.push_back(node.clients = *clients);
      if (has(node_role::controller)) {
        operators_ = node.operators = *operators;
        controller_ = name;
        config_.seeds = {node.peers};
      }
      node.data = directory_ + "/data/" + name;
      node.models = bundles_of(name);
      for (auto& d : node.devices) {
        d.type = device_type::emulated;
        if (d.id.empty())
          d.id = "cpu0";
      }
    }
    if (operators_.empty() || gateways_.empty())
      return error{ec::bad_config,
                   "expected a controller and a gateway among the nodes",
                   {}};
    write(directory_ + "/real.yaml", print_config(config_));
    write(config_.profiles, print_profiles(what_.profiles->all()));
    std::set<std::string> written;
    for (auto& [name, node] : config_.nodes)
      for (auto& [model, x] : what_.spec.bundles) {
        auto folder = bundles_of(name);
        if (has_bundle(name, x) && written.insert(folder + "/" + model).second)
          if (auto done = write_real_bundle(folder, model, x); !done)
            return done;
      }
    return {};
  }

  /// Hosts with all bundles share a folder.
  std::string bundles_of(const std::string& node) const {
    auto& all = what_.spec.bundles;
    auto has_all = std::all_of(all.begin(), all.end(), [&](auto& x) {
      return has_bundle(node, x.second);
    });
    return directory_ + "/bundles/" + (has_all ? "all" : node);
  }

  /// A real run has no object store: its bundles are on the disk of each host.
  bool has_bundle(const std::string& node, const simulated_model& x) const {
    return x.on.empty()
           || std::any_of(x.on.begin(), x.on.end(), [&](auto& place) {
                auto nodes = nodes_of(what_, place);
                return std::count(nodes.begin(), nodes.end(), node) != 0;
              });
  }

  result<void> wait_until_ready() {
    auto until = steady_now() + patience;
    error last{ec::unavailable, "no node answered", {}};
    while (steady_now() < until) {
      auto shell = operator_client::connect(operators_, 500ms);
      if (!shell) {
        last = shell.failure();
        continue;
      }
      auto list = shell->ask<model_list>("./registry", get_models{}, 500ms);
      if (!list) {
        last = list.failure();
        continue;
      }
      auto missing = std::find_if(list->models.begin(), list->models.end(),
                                  [](auto& m) { return m.ready < m.wanted; });
      if (!list->models.empty() && missing == list->models.end())
        return meet_gateways();
      if (!list->models.empty())
        last.text = "model '" + missing->settings.model + "' has "
                    + std::to_string(missing->ready) + " of "
                    + std::to_string(missing->wanted) + " replicas ready "
                    + missing->note;
    }
    return error{ec::unavailable,
                 "the real cluster did not come up: " + last.text + "; see "
                   + log_of(controller_),
                 {}};
  }

  /// Waits until every gateway serves the models.
  result<void> meet_gateways() {
    for (auto& address : gateways_) {
      auto x = client::connect(address);
      if (!x)
        return x.failure();
      clients_.push_back(std::make_unique<client>(std::move(*x)));
      for (auto until = steady_now() + patience; steady_now() < until;) {
        auto models = clients_.back()->models();
        if (models && models->size() >= what_.cluster.models.size())
          break;
      }
    }
    return {};
  }

  result<void> drive(workload& asked, real_record& out,
                     const std::function<void(double)>& progress) {
    begin_ = steady_now() + 100ms;
    begin_wall_ = wall_clock() + 100ms;
    sent_.resize(clients_.size());
    real_faults faults{what_, operators_, services_};
    for (auto& x : asked.requests()) {
      while (steady_now() < begin_ + x.at) {
        if (auto done = faults.apply(to_us(steady_now() - begin_)); !done)
          return done;
        take(out,
             std::min<microseconds>(to_us(begin_ + x.at - steady_now()), 1ms));
      }
      auto id = out.requests.size() + 1;
      auto& model = asked.choose_model(x);
      request_row row;
      row.part = x.part;
      row.sent = x.at;
      row.model = names_.number_of(model);
      out.requests.push_back(row);
      auto& part = asked.part(x);
      auto g = id % clients_.size();
      auto deadline = part.deadline > 0us ? part.deadline : deadline_of(model);
      longest_ = std::max(longest_, deadline + 1s);
      sent_[g][clients_[g]->submit(asked.make_request(x, model, id),
                                   deadline)] = id;
      if (id % 64 == 0)
        progress(to_seconds(x.at) / to_seconds(what_.spec.length));
    }
    for (auto until = steady_now() + longest_;
         steady_now() < until && open() > 0;)
      take(out, 1ms);
    return {};
  }

  /// The deadline of requests without one; a simulated client leaves the choice
  /// to the gateway.
  microseconds deadline_of(const std::string& model) const {
    auto out = serving_policy{}.deadline;
    for (auto& m : config_.models)
      if (m.model == model)
        out = m.policy.deadline;
    return out;
  }

  size_t open() const {
    size_t n = 0;
    for (auto& x : sent_)
      n += x.size();
    return n;
  }

  void take(real_record& out, microseconds longest) {
    for (size_t g = 0; g < clients_.size(); ++g) {
      auto wait = longest / static_cast<int64_t>(clients_.size());
      while (auto x = clients_[g]->receive(wait)) {
        wait = 0us;
        auto i = sent_[g].find(x->id);
        if (i == sent_[g].end())
          continue;
        auto& row = out.requests[i->second - 1];
        row.ended = to_us(steady_now() - begin_);
        row.status = x->reply.status;
        row.queue = x->reply.queue;
        row.execute = x->reply.execute;
        row.batch = x->reply.batch;
        sent_[g].erase(i);
      }
    }
  }

  /// Reads the compared events from a log with lines "TIME +UPTIME LEVEL
  /// COMPONENT.EVENT key=value ...".
  void read_log(const std::string& path, real_record& out) const {
    std::ifstream log{path};
    for (std::string line; std::getline(log, line);) {
      std::istringstream words{line};
      std::string time, uptime, level, event;
      if (!(words >> time >> uptime >> level >> event) || uptime[0] != '+')
        continue;
      ++out.events[event];
      if (event == "autoscaler.scaled")
        out.scaled.push_back(
          scaled_at(to_seconds(parse_wall(time) - begin_wall_), line));
    }
  }

  /// Parses "2026-11-28T04:05:06.789+0000" to a time since 1970; 0 on failure.
  static microseconds parse_wall(const std::string& text) {
    std::tm x{};
    auto* rest = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &x);
    int ms = 0;
    if (rest == nullptr || std::sscanf(rest, ".%3d", &ms) != 1)
      return 0us;
    std::tm zone{};
    ::strptime(rest + 4, "%z", &zone);
    return seconds{::timegm(&x) - zone.tm_gmtoff} + milliseconds{ms};
  }

  const loaded_scenario& what_;
  std::string directory_;
  cluster_config config_;
  std::vector<std::string> gateways_;
  std::string operators_, controller_;
  std::map<std::string, std::unique_ptr<service>> services_; ///< by node
  std::vector<std::unique_ptr<client>> clients_;
  std::vector<std::unordered_map<uint64_t, uint64_t>> sent_; ///< per client
  name_list names_;
  microseconds longest_{0}; ///< the longest deadline
  timestamp begin_;
  microseconds begin_wall_{0}; ///< the same time, since 1970
};

} // namespace

scaled_event scaled_at(double at, std::string_view line) {
  auto field = [&](const char* name) {
    return std::string{field_of(line, name)};
  };
  return {at, field("model") + " " + field("from") + " -> " + field("to")};
}

result<real_record> run_really(const loaded_scenario& what, uint64_t seed,
                               const std::string& directory,
                               const std::function<void(double)>& progress) {
  return real_run{what, directory}.run(seed, progress);
}

} // namespace millrace
