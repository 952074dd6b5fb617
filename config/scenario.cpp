// SPDX-License-Identifier: Apache-2.0
#include "config/scenario.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "runtime/bytes.hpp"
#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/yaml_record.hpp"

namespace millrace {

namespace {

constexpr size_t max_scenario = 4u << 20;
constexpr size_t max_hosts = 100'000;

/// Checks what takes more than one value, and spreads groups out into nodes.
class scenario_builder {
public:
  scenario_builder(loaded_scenario& x, const yaml_reader& reader,
                   std::filesystem::path base)
    : x_(x),
      spec_(x.spec),
      reader_(reader),
      base_(std::move(base)) {}

  result<void> run() {
    if (!spec_.catalogue.empty())
      read_catalogue();
    if (spec_.cluster.empty() == spec_.hosts.empty())
      refuse("hosts", spec_.hosts.empty()
                        ? "there are none (expected hosts, or a cluster's"
                          " config as 'cluster')"
                        : "stands beside 'cluster'; expected one of them");
    else if (spec_.hosts.empty())
      take_cluster();
    else
      spread_hosts();
    check_bundles();
    if (!error_)
      read_profiles();
    check_decisions();
    check_models();
    check_workload();
    check_faults();
    if (error_)
      return *error_;
    return {};
  }

private:
  void refuse(const std::string& key, const std::string& why) {
    if (!error_)
      error_ = error{ec::bad_config, reader_.where(key) + why, {}};
  }

  static std::string at(const std::string& list, size_t i) {
    return list + "[" + std::to_string(i) + "]";
  }

  void take_cluster() {
    auto path = (base_ / spec_.cluster).lexically_normal().string();
    auto found = load_config(path);
    if (!found)
      return refuse("cluster", found.failure().text);
    x_.cluster = std::move(*found);
    spec_.models = x_.cluster.models;
  }

  void spread_hosts() {
    auto& out = x_.cluster;
    out.cluster = spec_.name;
    out.models = spec_.models;
    out.link = spec_.link;
    out.gateway = spec_.gateway;
    out.monitor = spec_.monitor;
    for (size_t i = 0; i < spec_.hosts.size(); ++i)
      spread(at("hosts", i), spec_.hosts[i]);
    if (out.link.timeout < 2 * out.link.beat)
      refuse("link.timeout", "expected at least two beats");
  }

  double price_of(const host_group& group) const {
    double out = 0;
    for (auto& g : group.devices)
      if (auto i = catalogue_.kinds.find(g.kind); i != catalogue_.kinds.end())
        out += static_cast<double>(g.count) * i->second.price;
    return out;
  }

  void spread(const std::string& key, host_group& group) {
    if (auto fine = check_name("host", group.name); !fine)
      return refuse(key + ".name", fine.failure().text);
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
      add_devices(node, group);
      if (x_.cluster.nodes.size() >= max_hosts)
        return refuse(key + ".count", "makes more than 100,000 hosts");
      if (!x_.cluster.nodes.emplace(name, std::move(node)).second)
        return refuse(key + ".name", "node '" + name + "' is there twice");
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
        d.emulate = g.emulate;
        node.devices.push_back(std::move(d));
      }
  }

  void read_catalogue() {
    existing_file("catalogue", spec_.catalogue);
    if (error_)
      return;
    auto text = read_file(spec_.catalogue, max_scenario);
    if (!text)
      return refuse("catalogue", text.failure().text);
    yaml_reader reader{spec_.catalogue};
    if (auto done = reader.read(*text, catalogue_); !done)
      error_ = done.failure();
  }

  void check_decisions() {
    for (auto& [name, sizes] : spec_.decisions) {
      auto key = "decisions." + name;
      if (name != "placement")
        refuse(key, "no decision has that name; there is placement");
      for (auto& [size, time] : sizes)
        if (auto n = number_in<double>(size); n && *n >= 0)
          x_.cluster.decision_seconds[name].add(*n, to_seconds(time));
        else
          refuse(key, "expected sizes, found " + shown(size));
    }
  }

  void known_bundle(const std::string& key, const std::string& name) {
    if (!spec_.bundles.contains(name))
      refuse(key,
             "no model " + shown(name) + " under 'bundles'; there are "
               + joined(spec_.bundles, ", ", [](auto& x) { return x.first; }));
  }

  void check_bundles() {
    for (auto& [name, x] : spec_.bundles) {
      auto key = "bundles." + name;
      if (auto fine = check_name("model", name); !fine)
        refuse(key, fine.failure().text);
      if (!x.like.empty())
        known_bundle(key + ".like", x.like);
      for (auto& [kind, rows] : x.execute)
        for (auto& [n, time] : rows)
          if (number_in<uint64_t>(n).value_or(0) == 0)
            refuse(key + ".execute." + kind,
                   "expected numbers of rows, found " + shown(n));
      if (!x.profile.empty())
        existing_file(key + ".profile", x.profile);
      std::set<std::string> seen{name};
      for (auto next = x.like; !next.empty() && spec_.bundles.contains(next);
           next = spec_.bundles.at(next).like)
        if (!seen.insert(next).second)
          return refuse(key + ".like", "goes round in a circle");
    }
  }

  void read_profiles() {
    profile_book out;
    for (auto& [name, x] : spec_.bundles) {
      out[name] = profile_of(name);
      for (auto& [kind, about] : catalogue_.kinds)
        add_likeness(out[name], kind, about);
    }
    x_.profiles = std::make_shared<const profile_book>(std::move(out));
  }

  /// Gives a kind of device the times of the one it is like, unless it has its
  /// own.
  static void add_likeness(profile& x, const std::string& kind,
                           const device_kind& about) {
    auto points = x.points;
    auto has = [&](const std::string& metric) {
      return !curve_of({x.model, points}, metric, kind).empty();
    };
    for (auto p : points) {
      if (about.like.empty() || p.device != about.like)
        continue;
      p.device = kind;
      std::erase_if(p.metrics, [&](auto& m) { return has(m.first); });
      scale(p, about.times);
      if (!p.metrics.empty())
        x.points.push_back(std::move(p));
    }
  }

  static void scale(profile_point& x, double times) {
    for (auto& [metric, value] : x.metrics)
      if (metric.ends_with("_seconds"))
        value *= times;
  }

  /// Its own points stand first, before those of the model it is like.
  profile profile_of(const std::string& name) {
    auto& x = spec_.bundles.at(name);
    profile out{name, {}};
    if (!x.profile.empty()) {
      if (auto found = read_profile(x.profile))
        out.points = std::move(found->points);
      else
        refuse("bundles." + name + ".profile", found.failure().text);
    }
    auto add = [&](const std::string& kind, double rows, const char* metric,
                   microseconds value) {
      out.points.push_back({kind, rows, {}, {{metric, to_seconds(value)}}});
    };
    for (auto& [kind, times] : x.execute)
      for (auto& [rows, time] : times)
        add(kind, number_in<double>(rows).value_or(1), "execute_seconds", time);
    for (auto& [kind, time] : x.load)
      add(kind, 1, "load_seconds", time);
    if (x.like.empty())
      return out;
    for (auto& point : profile_of(x.like).points) {
      scale(point, x.times);
      out.points.push_back(point);
    }
    return out;
  }

  void existing_file(const std::string& key, std::string& path) {
    path = (base_ / path).lexically_normal().string();
    if (!std::filesystem::is_regular_file(path))
      refuse(key, "there is no file " + path);
  }

  void check_models() {
    std::set<std::string> seen;
    for (size_t i = 0; i < spec_.models.size(); ++i) {
      auto& x = spec_.models[i];
      auto key = at("models", i) + ".model";
      known_bundle(key, x.model);
      if (!seen.insert(x.model).second)
        refuse(key, shown(x.model) + " is there twice");
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
      for (auto& [name, weight] : x.mix) {
        known_bundle(key + ".mix." + name, name);
        if (!(weight >= 0))
          refuse(key + ".mix." + name, "expected a weight of at least 0");
      }
      auto files = x.arrivals == arrival_process::rates
                   || x.arrivals == arrival_process::times;
      if (files && x.file.empty())
        refuse(key,
               "expected a 'file' of " + std::string{to_string(x.arrivals)});
      else if (files)
        existing_file(key + ".file", x.file);
      if (x.start >= spec_.length)
        refuse(key + ".start", "is after the end of the run");
    }
    auto gateways = std::any_of(
      x_.cluster.nodes.begin(), x_.cluster.nodes.end(), [](auto& node) {
        auto& roles = node.second.roles;
        return std::count(roles.begin(), roles.end(), node_role::gateway) != 0;
      });
    if (!spec_.workload.empty() && !gateways)
      refuse("workload", "no host is a gateway, so nobody can ask anything");
  }

  void check_faults() {
    for (size_t i = 0; i < spec_.faults.size(); ++i) {
      auto& x = spec_.faults[i];
      auto key = at("faults", i);
      if (x.at.has_value() == (x.every > 0us))
        refuse(key, "expected one of 'at' and 'every'");
      for (size_t k = 0; k < x.nodes.size(); ++k)
        if (nodes_of(x_, x.nodes[k]).empty())
          refuse(at(key + ".nodes", k),
                 "no node or host group is called " + shown(x.nodes[k]));
    }
  }

  loaded_scenario& x_;
  scenario& spec_;
  const yaml_reader& reader_;
  std::filesystem::path base_;
  device_catalogue catalogue_;
  std::optional<error> error_;
};

} // namespace

std::vector<std::string> nodes_of(const loaded_scenario& x,
                                  const std::string& name) {
  std::vector<std::string> out;
  for (auto& [node, config] : x.cluster.nodes) {
    auto stem = node.substr(0, node.rfind('-'));
    auto grouped = stem == name && node.size() > name.size()
                   && number_in<uint64_t>(node.substr(name.size() + 1));
    if (node == name || grouped)
      out.push_back(node);
  }
  return out;
}

result<loaded_scenario>
parse_scenario(const std::string& text, const std::string& file,
               const std::vector<std::string>& overrides) {
  loaded_scenario out;
  yaml_reader reader{file};
  if (auto done = reader.read(text, out.spec, overrides); !done)
    return done.failure();
  auto base = std::filesystem::absolute(file).parent_path();
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
