// SPDX-License-Identifier: Apache-2.0
#include "actors/node/compose.hpp"

#include <algorithm>

#include "actors/autoscaler/autoscaler_state.hpp"
#include "actors/cache/cache_state.hpp"
#include "actors/chain/chain_controller_state.hpp"
#include "actors/chain/relay_state.hpp"
#include "actors/chain/store_watch_state.hpp"
#include "actors/cluster_state/observer_state.hpp"
#include "actors/executor/executor_state.hpp"
#include "actors/gateway/gateway_state.hpp"
#include "actors/inspector/inspector_state.hpp"
#include "actors/monitor/monitor_state.hpp"
#include "actors/placement/placement_state.hpp"
#include "actors/profiler/profiler_state.hpp"
#include "actors/provider/provider_state.hpp"
#include "actors/registry/registry_state.hpp"
#include "models/gpu/nvml.hpp"

namespace millrace {

namespace {

/// Epochs that are reserved for one start of a node; a supervisor fails the
/// node after far fewer starts of an actor.
constexpr uint64_t starts_of_actor = 1'000'000;

/// Adds the actors, one role after the other.
class composer {
public:
  composer(const cluster_config& config, const std::string& name,
           node_environment environment)
    : config_(config),
      mine_(config.nodes.at(name)),
      environment_(std::move(environment)) {}

  supervisor_options run() {
    out_.net = environment_.net;
    out_.counts = environment_.counts;
    out_.state = environment_.state;
    out_.spans = environment_.spans;
    for (auto& [name, x] : config_.nodes)
      if (!config_.pool_of(name))
        out_.configured.insert(name);
    out_.worker = has(node_role::worker);
    out_.drain_timeout = mine_.drain_timeout;
    out_.ended = environment_.ended;
    add("monitor", "",
        [probes = probes(), counts = environment_.counts,
         period = config_.monitor.period](supervisor_actor::pointer self) {
          return self->spawn(monitor, probes, counts, period);
        });
    add("inspector", "",
        [options = inspector_options{environment_.spans, environment_.examine,
                                     environment_.wall_clock}](
          supervisor_actor::pointer self) {
          return self->spawn(inspector, options);
        });
    if (has(node_role::worker))
      add_worker();
    if (has(node_role::controller))
      add_controller();
    if (has(node_role::gateway))
      add_gateway();
    return std::move(out_);
  }

private:
  /// Probes that the monitor of this node reads.
  monitor_probes probes() const {
    monitor_probes out{
      environment_.probe, environment_.children, environment_.gpus, {}};
    for (auto& d : mine_.devices)
      if (d.type == device_type::cuda)
        out.gpu_of[d.id] = d.cuda.gpu;
    return out;
  }

  bool has(node_role x) const {
    return std::count(mine_.roles.begin(), mine_.roles.end(), x) != 0;
  }

  template <class F>
  void add(std::string name, std::string group, F spawn) {
    out_.children.push_back(
      {std::move(name), std::move(group),
       [spawn = std::move(spawn)](supervisor_actor::pointer self) {
         return caf::actor_cast<caf::actor>(spawn(self));
       }});
  }

  void add_worker() {
    if (environment_.bulk)
      add("relay", "",
          [options = relay_options{environment_.net, environment_.bulk,
                                   environment_.memory, environment_.draw_token,
                                   environment_.counts}](
            supervisor_actor::pointer self) {
            return self->spawn(relay, options);
          });
    auto find_relay = [net = environment_.net] {
      auto x = net->resolve("./relay");
      return x ? caf::actor_cast<relay_actor>(x) : relay_actor{};
    };
    auto keeper = environment_.keep_bundles && mine_.cache.disk.value > 0
                    ? environment_.keep_bundles(mine_.data + "/bundles",
                                                environment_.memory)
                    : nullptr;
    // All starts of the cache share one bundle_keeper: its thread completes the
    // writes of one cache before the next cache lists the bundles.
    add("cache", "",
        [reader = environment_.read_bundles(), how = mine_.cache, keeper,
         probe = environment_.probe, counts = environment_.counts,
         find_relay](supervisor_actor::pointer self) {
          cache_options x;
          x.counts = counts;
          x.reader = reader;
          x.keeper = keeper;
          x.disk = how.disk;
          x.owner = supervisor_actor{self};
          x.memory = how.memory;
          x.probe = probe;
          x.evict = how.evict;
          x.find_relay = find_relay;
          return self->spawn(cache, std::move(x));
        });
    for (auto& d : mine_.devices) {
      out_.devices.push_back(describe(d));
      device_factory make = [d, make = environment_.make_device](
                              device_listener& to) { return make(d, to); };
      add("executor/" + d.id, "",
          [info = out_.devices.back(), make, host = environment_.host,
           counts = environment_.counts,
           spans = environment_.spans](supervisor_actor::pointer self) {
            return self->spawn(executor, info, make, supervisor_actor{self},
                               host, counts, spans);
          });
    }
  }

  /// The pools of the config, with the devices of their machines.
  std::map<std::string, machine_pool> pools() const {
    std::map<std::string, machine_pool> out;
    for (auto& [name, x] : config_.pools) {
      auto& pool = out[name];
      pool.what.settings = x.settings;
      pool.what.type = x.type;
      pool.machines = x.machines;
      if (!x.machines.empty())
        for (auto& d : config_.nodes.at(x.machines.front()).devices)
          pool.what.devices.push_back(describe(d));
    }
    return out;
  }

  /// Registry, cluster state, autoscaler, placement and provider hold handles
  /// to each other. The supervisor therefore starts and restarts them as one
  /// group.
  void add_controller() {
    struct handles {
      uint64_t starts = 0; ///< starts of the placement actor
      uint64_t epoch = 0;  ///< epoch of the latest start
      placement_actor placement;
      provider_actor provider; ///< null: no pools
      autoscaler_actor autoscaler;
      cluster_state_actor cluster_state;
    };
    auto made = std::make_shared<handles>();
    placement_options settings;
    // Nodes obey the latest start of the node, and within that start the latest
    // start of the actor. If the disk with the count of node starts is lost,
    // other nodes reject this start (see hello_rejected).
    settings.epoch = environment_.net->self().incarnation * starts_of_actor;
    settings.settle = 2 * config_.link.timeout;
    for (auto& [name, x] : config_.nodes)
      if (!x.devices.empty() && !config_.pool_of(name))
        settings.expected.insert(name);
    if (auto i = config_.decision_seconds.find("placement");
        i != config_.decision_seconds.end())
      settings.decision_seconds = i->second;
    settings.policy = config_.placement;
    add("placement", "controller",
        [made, settings,
         counts = environment_.counts](supervisor_actor::pointer self) {
          auto mine = settings;
          made->epoch = mine.epoch += ++made->starts;
          return made->placement = self->spawn(placement, mine, counts);
        });
    if (environment_.machines && !config_.pools.empty())
      add("provider", "controller",
          [made, options = provider_options{
                   0, pools(), environment_.machines, environment_.facts,
                   environment_.wall_clock}](supervisor_actor::pointer self) {
            auto mine = options;
            mine.epoch = made->epoch;
            return made->provider = self->spawn(provider, mine);
          });
    curve scaling_seconds;
    if (auto i = config_.decision_seconds.find("scaling");
        i != config_.decision_seconds.end())
      scaling_seconds = i->second;
    add("autoscaler", "controller",
        [made, scaling_seconds,
         counts = environment_.counts](supervisor_actor::pointer self) {
          return made->autoscaler =
                   self->spawn(autoscaler,
                               autoscaler_options{made->epoch, made->epoch,
                                                  scaling_seconds},
                               made->placement, made->provider, counts);
        });
    add("cluster_state", "controller",
        [made, period = config_.demand.period](supervisor_actor::pointer self) {
          return made->cluster_state = self->spawn(
                   cluster_state, cluster_state_options{made->epoch, period},
                   made->placement, made->autoscaler, made->provider);
        });
    add("chains", "",
        [options = chain_options{environment_.net, config_.bulk.patience,
                                 config_.bulk.topology, environment_.counts}](
          supervisor_actor::pointer self) {
          return self->spawn(chain_controller, options);
        });
    if (environment_.open_store)
      for (auto& [name, x] : config_.object_stores)
        add_store_watch(name, x);
    add("profiler", "",
        [made, net = environment_.net, facts = environment_.facts,
         aside = environment_.aside,
         known = environment_.known_profiles](supervisor_actor::pointer self) {
          return self->spawn(
            profiler, profiler_options{net,
                                       facts,
                                       5s,
                                       {},
                                       aside,
                                       [made] { return made->cluster_state; },
                                       known});
        });
    add("registry", "controller",
        [made, facts = environment_.facts, wall = environment_.wall_clock,
         wanted = registered{config_.models, config_.scopes, {}}](
          supervisor_actor::pointer self) {
          return self->spawn(registry, facts, made->cluster_state,
                             made->placement, wanted, wall);
        });
  }

  void add_store_watch(const std::string& name, const object_store_config& x) {
    add("stores/" + name, "",
        [name, x, net = environment_.net,
         open = environment_.open_store](supervisor_actor::pointer self) {
          auto store = open(x);
          MILLRACE_ASSERT(store); // the config was checked
          return self->spawn(
            store_watch, store_watch_options{net, name, x, std::move(*store),
                                             supervisor_actor{self}});
        });
  }

  void add_gateway() {
    gateway_options settings;
    settings.max_requests = config_.gateway.max_requests;
    settings.max_bytes = config_.gateway.max_bytes;
    settings.max_client_bytes = config_.gateway.max_client_bytes;
    if (auto doors = clients_of(mine_); !doors.empty()) {
      settings.tenants.clear();
      for (auto& x : doors)
        settings.tenants.push_back(x.tenant);
    }
    settings.max_models = config_.gateway.max_models;
    settings.selection = config_.selection.policy;
    settings.spans = environment_.spans;
    // Gateways detect a death within one heartbeat of each other, and check
    // periodically.
    settings.death_notice = config_.link.beat * 5 / 2;
    settings.demand_period = config_.demand.period;
    settings.only_assigned = !config_.keys.empty();
    add("gateway", "",
        [settings, net = environment_.net,
         counts = environment_.counts](supervisor_actor::pointer self) {
          return self->spawn(gateway, settings, net, counts);
        });
  }

  const cluster_config& config_;
  const node_config& mine_;
  node_environment environment_;
  supervisor_options out_;
};

} // namespace

device_info describe(const device_config& settings) {
  device_info out{
    settings.id,     settings.kind,    settings.lanes_or_default(),
    settings.memory, settings.sharing, false,
    settings.units};
  auto is_gpu = settings.type == device_type::cuda;
  if (is_gpu && out.memory.value == 0
      && settings.cuda.parameters == gpu_parameters::device)
    if (auto all = read_gpus(); all && settings.cuda.gpu < all->size())
      out.memory = (*all)[settings.cuda.gpu].memory;
  return out;
}

supervisor_options compose_node(const cluster_config& config,
                                const std::string& name,
                                node_environment environment) {
  return composer{config, name, std::move(environment)}.run();
}

} // namespace millrace
