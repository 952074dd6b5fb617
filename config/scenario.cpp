// SPDX-License-Identifier: Apache-2.0
#include "config/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "config/fault_checker.hpp"
#include "config/pools.hpp"
#include "config/preset.hpp"
#include "config/scenario_profiles.hpp"
#include "runtime/bytes.hpp"
#include "runtime/text.hpp"
#include "transport/messages/wanted_cuts.hpp"
#include "transport/wire.hpp"

namespace millrace {

namespace {

using namespace std::string_literals;

constexpr size_t max_scenario = 4u << 20;
constexpr size_t max_hosts = 100'000;
constexpr uint64_t most_chunks = 1'000'000;

/// Checks rules on several values, and expands groups into nodes.
class scenario_builder : private fault_checker {
public:
  scenario_builder(loaded_scenario& x, const yaml_reader& reader,
                   std::filesystem::path base)
    : fault_checker(reader, x),
      x_(x),
      spec_(x.spec),
      base_(std::move(base)) {}

  result<void> run() {
    if (!spec_.catalogue.empty())
      read_catalogue();
    if (spec_.cluster.empty() == spec_.hosts.empty())
      refuse("hosts", spec_.hosts.empty()
                        ? "there are none (expected hosts, or a cluster's"
                          " config as 'cluster')"
                        : "found beside 'cluster'; expected only one");
    else if (spec_.hosts.empty())
      take_cluster();
    else
      spread_hosts();
    check_bundles();
    if (!refused())
      read_profiles();
    if (!refused()) {
      check_decisions();
      check_devices();
      check_network();
      check_models();
      check_workload();
      check_faults();
      if (spec_.explore.settled < spec_.explore.storm)
        refuse("explore.settled",
               "is before the storm is over (explore.storm)");
    }
    return outcome();
  }

private:
  void take_cluster() {
    for (auto* key :
         {"models", "link", "gateway", "scopes", "pools", "placement",
          "selection", "demand", "monitor", "bulk", "known_profiles"})
      if (given(key))
        refuse(key, "found beside 'cluster', which sets it in its config");
    auto path = (base_ / spec_.cluster).lexically_normal().string();
    auto found = load_config(path);
    if (!found)
      return refuse("cluster", found.failure().text);
    x_.cluster = std::move(*found);
    spec_.models = x_.cluster.models;
  }

  void read_profiles() {
    auto found = make_profiles(spec_, catalogue_);
    if (!found)
      return fail(found.failure());
    x_.profiles = std::make_shared<const profile_book>(std::move(*found));
    for (auto& [name, x] : spec_.bundles)
      x.layer_bytes = layer_bytes_of(name, x);
  }

  /// Empty when the profile has no sizes for this number of layers.
  std::vector<uint64_t> layer_bytes_of(const std::string& name,
                                       const simulated_model& x) const {
    std::vector<double> parts(x.layers);
    double sum = 0;
    for (auto& all : x_.profiles->all())
      for (auto& point : all.points) {
        auto layer = point.dimensions.find("layer");
        auto bytes = point.metrics.find("parameter_bytes");
        if (all.model != name || layer == point.dimensions.end()
            || bytes == point.metrics.end() || layer->second < 0
            || layer->second >= static_cast<double>(x.layers))
          continue;
        auto& part = parts[static_cast<size_t>(layer->second)];
        sum += bytes->second - part;
        part = bytes->second;
      }
    if (x.layers < 2 || sum <= 0)
      return {};
    // Round so that the sizes add up.
    std::vector<uint64_t> out;
    double until = 0;
    uint64_t given = 0;
    for (auto part : parts) {
      until += part;
      auto end = static_cast<uint64_t>(
        std::llround(static_cast<double>(x.bytes.value) * (until / sum)));
      out.push_back(end - given);
      given = end;
    }
    return out;
  }

  void spread_hosts() {
    auto& out = x_.cluster;
    out.cluster = spec_.name;
    out.models = spec_.models;
    out.link = spec_.link;
    out.gateway = spec_.gateway;
    out.scopes = spec_.scopes;
    out.placement = spec_.placement;
    check_placement(out.placement);
    out.selection = spec_.selection;
    out.demand = spec_.demand;
    out.monitor = spec_.monitor;
    out.bulk = spec_.bulk;
    out.known_profiles = spec_.known_profiles;
    for (size_t i = 0; i < spec_.hosts.size(); ++i)
      spread(at("hosts", i), spec_.hosts[i]);
    add_pools();
    check_link(out.link);
  }

  void add_pools() {
    for (auto& [name, x] : spec_.pools)
      named("pools." + name, "pool", name);
    for (auto& x : check_pools(spec_.pools, spec_.hosts, spec_.scopes))
      refuse(x.key, x.why);
    if (refused())
      return;
    for (auto& group : spec_.hosts) {
      if (group.pool.empty())
        continue;
      auto& pool = x_.cluster.pools[group.pool];
      pool.settings = spec_.pools.at(group.pool);
      pool.type = group.name;
      pool.machines = x_.groups[group.name];
      if (pool.settings.most == 0)
        pool.settings.most = pool.machines.size();
      for (auto& machine : pool.machines)
        if (pool.settings.price > 0)
          x_.price[machine] = pool.settings.price;
      pool.settings.price = x_.price[pool.machines.front()];
    }
  }

  double price_of(const host_group& group) const {
    double out = 0;
    for (auto& g : group.devices)
      if (auto i = catalogue_.kinds.find(g.kind); i != catalogue_.kinds.end())
        out += static_cast<double>(g.count) * i->second.price;
    return out;
  }

  void spread(const std::string& key, host_group& group) {
    named(key + ".name", "host", group.name);
    if (!group.rack.empty())
      named(key + ".rack", "rack", group.rack);
    if (group.roles.empty())
      return refuse(key, "has no roles (expected some of gateway, controller,"
                         " worker)");
    auto works =
      std::count(group.roles.begin(), group.roles.end(), node_role::worker)
      != 0;
    if (!works && !group.devices.empty())
      return refuse(key + ".devices", "only a worker has devices");
    if (works && group.devices.empty())
      group.devices.emplace_back();
    auto count = std::max<uint64_t>(1, group.count);
    for (uint64_t n = 1; n <= count; ++n) {
      auto name = group.name;
      if (group.count > 0)
        name += "-" + std::to_string(n);
      node_config node;
      node.roles = group.roles;
      if (!group.rack.empty())
        node.rack =
          group.rack_size == 0
            ? group.rack
            : group.rack + "-" + std::to_string(1 + (n - 1) / group.rack_size);
      node.cache.memory = group.memory;
      node.cache.evict = group.evict;
      node.cache.disk = group.disk.keeps;
      if (group.disk.speed.bytes_per_second > 0)
        x_.disk_speed[name] = group.disk.speed;
      add_devices(node, group);
      if (x_.cluster.nodes.size() >= max_hosts)
        return refuse(key + ".count", "makes more than 100,000 hosts");
      if (!x_.cluster.nodes.emplace(name, std::move(node)).second)
        return refuse(key + ".name", "node '" + name + "' is there twice");
      x_.groups[group.name].push_back(name);
      x_.price[name] = group.price > 0 ? group.price : price_of(group);
    }
  }

  void add_devices(node_config& node, const host_group& group) const {
    std::map<std::string, size_t> count;
    for (auto& g : group.devices)
      for (uint64_t i = 0; i < g.count; ++i) {
        device_config d;
        d.type = device_type::emulated;
        d.kind = g.kind;
        d.id = g.kind + "." + std::to_string(count[g.kind]++);
        d.lanes = g.lanes;
        d.memory = g.memory;
        if (auto known = catalogue_.kinds.find(g.kind);
            known != catalogue_.kinds.end() && d.memory.value == 0)
          d.memory = known->second.memory;
        d.units = g.units;
        d.emulate = g.emulate;
        d.sharing = g.sharing;
        node.devices.push_back(std::move(d));
      }
  }

  void read_catalogue() {
    existing_file("catalogue", spec_.catalogue);
    if (refused())
      return;
    auto found = load_catalogue(spec_.catalogue);
    if (!found)
      return fail(found.failure());
    catalogue_ = std::move(*found);
  }

  /// Whether a profile has times of models on this kind of device.
  bool has_times(const std::string& kind, std::string_view metric) const {
    return x_.profiles->tells(std::string{metric}, kind);
  }

  void check_devices() {
    for (size_t i = 0; i < spec_.hosts.size(); ++i)
      for (size_t k = 0; k < spec_.hosts[i].devices.size(); ++k) {
        auto& d = spec_.hosts[i].devices[k];
        auto key = at(at("hosts", i) + ".devices", k);
        named(key + ".kind", "device", d.kind);
        check_emulation(key + ".emulate", d.emulate, d.lanes);
        check_device_sharing(key, d.sharing, d.lanes);
        if (d.kind != device_group{}.kind && !given(key + ".emulate")
            && !has_times(d.kind, "execute_seconds"))
          refuse(key + ".kind",
                 "no model has times for " + shown(d.kind)
                   + " (expected times in a profile or 'execute', a catalogue"
                     " entry with 'like', or 'emulate' here)");
        if (auto metric = metric_of(d.emulate.interference.model);
            !metric.empty() && !has_times(d.kind, metric))
          refuse(key + ".emulate.interference.model",
                 "no model's profile has the metric " + std::string{metric}
                   + " on " + shown(d.kind));
      }
  }

  void check_speed(const std::string& key, bandwidth x) {
    constexpr double least = 125; // bytes/s; below: hours per message
    if (x.bytes_per_second > 0 && x.bytes_per_second < least)
      refuse(key,
             "expected 0 or at least 1 kbit/s, found " + format_bandwidth(x));
  }

  void check_link_speed(const std::string& key, const link_speed& x) {
    check_speed(key + ".speed", x.speed);
    check_speed(key + ".per_flow", x.per_flow);
    check_speed(key + ".per_host", x.per_host);
  }

  void check_network() {
    auto& net = spec_.network;
    check_link_speed("network.host", net.host);
    check_link_speed("network.rack", net.rack);
    check_link_speed("network.store", net.store);
    check_link_speed("network.clients", net.clients);
    if (net.rack.per_flow.bytes_per_second > 0
        || net.rack.per_host.bytes_per_second > 0)
      refuse("network.rack", "limits flows (expected per_flow and per_host at"
                             " network.host, .store or .clients)");
    for (size_t i = 0; i < spec_.hosts.size(); ++i)
      check_speed(at("hosts", i) + ".disk.speed", spec_.hosts[i].disk.speed);
    std::set<std::string> racks;
    for (auto& [name, node] : x_.cluster.nodes)
      racks.insert(node.rack);
    for (auto& [name, x] : net.links) {
      auto key = "network.links." + name;
      check_link_speed(key, x);
      if (!x_.cluster.nodes.contains(name) && !racks.contains(name))
        refuse(key, "no host or rack has that name");
    }
  }

  void check_decisions() {
    for (auto& [name, sizes] : spec_.decisions) {
      auto key = "decisions." + name;
      if (name != "placement" && name != "scaling")
        refuse(key, "no decision has that name; there are placement and"
                    " scaling");
      for (auto& [size, time] : sizes)
        if (auto n = number_in<double>(size); n && *n >= 0)
          x_.cluster.decision_seconds[name].add(*n, to_seconds(time));
        else
          refuse(key, "expected sizes, found " + shown(size));
    }
  }

  /// Adds an object store if a model is stored in one.
  void add_object_store() {
    if (std::any_of(spec_.bundles.begin(), spec_.bundles.end(),
                    [](auto& x) { return x.second.at == bundle_place::store; }))
      x_.cluster.object_stores.try_emplace("store").first->second.url =
        "simulated:";
  }

  void check_bundles() {
    add_object_store();
    for (auto& [name, x] : spec_.bundles) {
      auto key = "bundles." + name;
      named(key, "model", name);
      if (!x.application.empty())
        named(key + ".application", "application", x.application);
      if (x.bytes.value / spec_.chunk.value > most_chunks)
        refuse(key + ".bytes", "travels in more than a million chunks (expected"
                               " a larger 'chunk')");
      if (!x.like.empty())
        known_bundle(key + ".like", x.like);
      for (auto& [kind, rows] : x.execute)
        for (auto& [n, time] : rows)
          if (number_in<uint64_t>(n).value_or(0) == 0)
            refuse(key + ".execute." + kind,
                   "expected numbers of rows, found " + shown(n));
      for (auto& host : x.on)
        if (!x_.cluster.nodes.contains(host))
          refuse(key + ".on", "there is no host " + shown(host));
      if (!x.on.empty() && x.at == bundle_place::store)
        refuse(key + ".on", "found beside 'at: store'; expected only one");
      if (!x.profile.empty())
        existing_file(key + ".profile", x.profile);
      else if (!x.profile_layers.empty())
        refuse(key + ".profile_layers",
               "selects layers of a profile, but there is no 'profile'");
      std::set<std::string> seen{name};
      for (auto next = x.like; !next.empty() && spec_.bundles.contains(next);
           next = spec_.bundles.at(next).like)
        if (!seen.insert(next).second)
          return refuse(key + ".like", "refers back to itself");
    }
  }

  bool has_role(node_role x) const {
    return std::any_of(x_.cluster.nodes.begin(), x_.cluster.nodes.end(),
                       [&](auto& node) {
                         auto& roles = node.second.roles;
                         return std::count(roles.begin(), roles.end(), x) != 0;
                       });
  }

  void existing_file(const std::string& key, std::string& path) {
    path = (base_ / path).lexically_normal().string();
    if (!std::filesystem::is_regular_file(path))
      refuse(key, "there is no file " + path);
  }

  void check_models() {
    config_checker::check_models(spec_.models, x_.cluster.scopes,
                                 x_.cluster.demand);
    check_devices_of(spec_.models, x_.cluster.scopes, x_.cluster.nodes);
    for (size_t i = 0; i < spec_.models.size(); ++i) {
      auto& x = spec_.models[i];
      known_bundle(at("models", i) + ".model", x.model);
      if (auto bundle = spec_.bundles.find(x.model);
          bundle != spec_.bundles.end())
        if (auto fine = check_cuts(wanted_cuts(x), bundle->second.layers);
            !fine)
          refuse(at("models", i), fine.failure().text);
    }
    for (auto role : {node_role::controller, node_role::worker})
      if (!spec_.models.empty() && !has_role(role))
        refuse("models", "no host is a " + std::string{to_string(role)}
                           + ", so nothing is ever loaded");
  }

  void check_mix(const std::string& key, const workload_part& x) {
    double sum = 0;
    for (auto& [name, weight] : x.mix) {
      known_bundle(key + "." + name, name);
      if (!(weight >= 0 && weight <= 1e9))
        refuse(key + "." + name, "expected a weight between 0 and 1e9");
      sum += weight;
    }
    if (!x.mix.empty() && sum <= 0)
      refuse(key, "expected a weight of more than 0");
  }

  void check_rows(const std::string& key, const workload_part& x) {
    for (auto& [name, m] : spec_.bundles) {
      auto asked =
        x.model == name || x.mix.contains(name)
        || (!x.application.empty() && x.application == m.application);
      auto row = std::max(m.input.value, m.output.value);
      if (asked && x.rows * row > wire_limits::message_bytes)
        refuse(key, "makes " + format_bytes(x.rows * row) + " of " + name
                      + "; a message holds "
                      + format_bytes(wire_limits::message_bytes));
    }
  }

  void check_workload() {
    for (size_t i = 0; i < spec_.workload.size(); ++i) {
      auto& x = spec_.workload[i];
      auto key = at("workload", i);
      auto ways = !x.model.empty() + !x.application.empty() + !x.mix.empty();
      if (ways != 1)
        refuse(key, "expected one of model, application and mix");
      if (!x.model.empty())
        known_bundle(key + ".model", x.model);
      if (!x.application.empty()
          && std::none_of(
            spec_.bundles.begin(), spec_.bundles.end(),
            [&](auto& b) { return b.second.application == x.application; }))
        refuse(key + ".application", "no model under 'bundles' is a variant of "
                                       + shown(x.application));
      if (x.application.empty() && given(key + ".goal"))
        refuse(key + ".goal", "does nothing without 'application', which has"
                              " variants to choose from");
      check_mix(key + ".mix", x);
      check_rows(key + ".rows", x);
      auto files = is_from_file(x.arrivals);
      if (files && x.file.empty())
        refuse(key,
               "expected a 'file' of " + std::string{to_string(x.arrivals)});
      else if (files)
        existing_file(key + ".file", x.file);
      check_arrivals(key + ".", x, spec_.length);
      if (x.start >= spec_.length)
        refuse(key + ".start", "is after the end of the run");
    }
    if (!spec_.workload.empty() && !has_role(node_role::gateway))
      refuse("workload",
             "no host is a gateway (expected one for the requests)");
  }

  loaded_scenario& x_;
  scenario& spec_;
  std::filesystem::path base_;
  device_catalogue catalogue_;
};

} // namespace

std::vector<std::string> nodes_of(const loaded_scenario& scenario,
                                  const std::string& name) {
  if (auto i = scenario.groups.find(name); i != scenario.groups.end())
    return i->second;
  if (scenario.cluster.nodes.contains(name))
    return {name};
  return {};
}

result<loaded_scenario>
parse_scenario(const std::string& text, const std::string& file,
               const std::vector<std::string>& overrides) {
  loaded_scenario out;
  out.file = file;
  yaml_reader reader{file};
  auto base = std::filesystem::absolute(file).parent_path();
  auto preset = [&](auto& name) { return preset_values(name, base.string()); };
  if (auto done = reader.read(text, out.spec, overrides, preset); !done)
    return done.failure();
  if (auto done = scenario_builder{out, reader, base}.run(); !done)
    return done.failure();
  return out;
}

result<loaded_scenario>
load_scenario(const std::string& path,
              const std::vector<std::string>& overrides) {
  auto text = read_file(path, max_scenario);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  return parse_scenario(*text, path, overrides);
}

} // namespace millrace
