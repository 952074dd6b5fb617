// SPDX-License-Identifier: Apache-2.0
#include "config/config.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

#include "config/checker.hpp"
#include "config/preset.hpp"
#include "runtime/bytes.hpp"
#include "runtime/text.hpp"
#include "transport/keys/key_file.hpp"

namespace millrace {

namespace {

constexpr size_t max_config = 1u << 20;
constexpr uint64_t least_memory = 1u << 20; ///< memory limit for models
constexpr size_t max_ipc_address = 6 + 107; ///< sun_path, unix(7)

class checker : private config_checker {
public:
  checker(cluster_config& x, const yaml_reader& reader)
    : config_checker(reader),
      x_(x) {}

  result<void> run() {
    named("cluster", "cluster", x_.cluster);
    if (x_.nodes.empty())
      refuse("nodes", "there are none (expected a map of node names)");
    for (auto& [name, node] : x_.nodes)
      check_node(name, node);
    for (size_t i = 0; i < x_.seeds.size(); ++i)
      check_seed(at("seeds", i), x_.seeds[i]);
    for (auto& [name, store] : x_.object_stores)
      check_object_store(name, store);
    check_models(x_.models, x_.scopes, x_.demand);
    check_placement(x_.placement);
    check_no_pools(x_.scopes);
    check_devices_of(x_.models, x_.scopes, x_.nodes);
    check_link(x_.link);
    return outcome();
  }

private:
  static bool is_port(std::string_view x) {
    return number_in<uint16_t>(x).value_or(0) > 0;
  }

  /// Checks the address on which a node listens; no other node of the file may
  /// have the same address.
  void endpoint(const std::string& key, const std::string& x) {
    if (x.empty())
      return;
    auto colon = x.rfind(':');
    auto any_port = x.starts_with("tcp://") && x.ends_with(":*");
    if (!any_port)
      peer_address(key, x);
    if (x.starts_with("tcp://"))
      loopback(key, x.substr(6, colon - 6));
    if (!any_port)
      alone(key, x);
  }

  /// Checks a seed. With keys, the seed must be a node of the file, since its
  /// key must be known.
  void check_seed(const std::string& key, const std::string& x) {
    peer_address(key, x);
    if (!x_.keys.empty() && !node_at(x_, x))
      refuse(key, shown(x, 80)
                    + " is not the address of a node (expected the peers or"
                      " advertise of a node, since its key must be known)");
  }

  /// Checks the form of an address to connect to.
  void peer_address(const std::string& key, const std::string& x) {
    auto colon = x.rfind(':');
    if (x.starts_with("ipc://") ? x.size() == 6 || x.size() > max_ipc_address
                                : !x.starts_with("tcp://") || colon < 7
                                    || !is_port(x.substr(colon + 1)))
      refuse(key, "expected an address like tcp://127.0.0.1:7100 or"
                  " ipc:///run/millrace/peers, found "
                    + shown(x, 80));
  }

  /// Refuses a value that another node of the file has as well.
  void alone(const std::string& key, const std::string& x) {
    auto [i, fresh] = taken_.emplace(x, key);
    if (!fresh)
      refuse(key, shown(x, 80) + " is " + i->second + " already");
  }

  void loopback(const std::string& key, const std::string& host) {
    if (x_.keys.empty() && host != "127.0.0.1" && host != "localhost"
        && host != "[::1]")
      refuse(
        key,
        "binds " + host
          + ", which other hosts can reach without keys (expected the option"
            " keys, see millrace keys, or a loopback address or ipc://)");
  }

  void check_node(const std::string& name, node_config& node) {
    auto key = "nodes." + name;
    named(key, "node", name);
    if (name == "memory" || name == "disk")
      refuse(key, "has the name of a model source (expected another name)");
    if (node.roles.empty())
      refuse(key, "has no roles (expected some of gateway, controller,"
                  " worker)");
    endpoint(key + ".peers", node.peers);
    endpoint(key + ".bulk", node.bulk);
    endpoint(key + ".clients", node.clients);
    for (auto& [tenant, address] : node.tenants) {
      named(key + ".tenants." + tenant, "tenant", tenant);
      endpoint(key + ".tenants." + tenant, address);
      if (tenant == default_tenant)
        refuse(key + ".tenants." + tenant,
               "has its address in 'clients' (expected another tenant)");
    }
    endpoint(key + ".operators", node.operators);
    if (!node.advertise.empty())
      peer_address(key + ".advertise", node.advertise);
    if (!node.http.empty())
      check_http(key + ".http", node.http);
    if (node.peers.empty())
      refuse(key + ".peers", "is empty");
    auto has = [&](node_role r) {
      return std::count(node.roles.begin(), node.roles.end(), r) != 0;
    };
    if (has(node_role::gateway) && node.clients.empty() && node.tenants.empty())
      refuse(key, "is a gateway without an address for clients"
                  " (expected key 'clients')");
    if (has(node_role::worker) && node.devices.empty())
      node.devices.emplace_back();
    if (!has(node_role::worker) && !node.devices.empty())
      refuse(key + ".devices", "only a worker has devices");
    auto [memory, disk, evict] = node.cache;
    if (!has(node_role::worker) && (memory.value > 0 || disk.value > 0))
      refuse(key + ".cache", "only a worker has a cache");
    if (memory.value > 0 && memory.value < least_memory)
      refuse(key + ".cache.memory", "expected 0 or at least "
                                      + format_bytes(least_memory) + ", found "
                                      + format_bytes(memory.value));
    if (node.data.empty())
      node.data = "data/" + name;
    alone(key + ".data", node.data);
    if (node.models.empty())
      node.models = "bundles";
    check_devices(key, node);
  }

  void check_object_store(const std::string& name,
                          const object_store_config& x) {
    auto key = "object_stores." + name;
    named(key, "object store", name);
    if (auto where = locate(x); !where)
      refuse(key, where.failure().text);
  }

  void check_http(const std::string& key, const std::string& x) {
    auto colon = x.rfind(':');
    auto any_port = x.ends_with(":0");
    if (colon == std::string::npos || x.starts_with('[')
        || !(any_port || is_port(x.substr(colon + 1))))
      return refuse(key, "expected HOST:PORT, like 127.0.0.1:9100 (IPv4; port"
                         " 0: any free one), found "
                           + shown(x, 80));
    loopback(key, x.substr(0, colon));
    if (!any_port)
      alone(key, "tcp://" + x);
  }

  void check_devices(const std::string& key, node_config& node) {
    std::set<std::string> ids;
    std::map<device_type, size_t> count;
    for (size_t i = 0; i < node.devices.size(); ++i) {
      auto& d = node.devices[i];
      auto where = at(key + ".devices", i);
      auto type = std::string{to_string(d.type)};
      if (d.id.empty())
        d.id = type + std::to_string(count[d.type]++);
      if (d.kind.empty())
        d.kind = type;
      named(where + ".id", "device", d.id);
      if (!ids.insert(d.id).second)
        refuse(where + ".id", "is there twice");
      using enum device_type;
      only_of({emulated}, d.type, where + ".emulate");
      only_of({cuda}, d.type, where + ".cuda");
      only_of({cpu}, d.type, where + ".pace");
      for (auto x : {"isolation", "process_memory", "load_limit", "run_limit"})
        only_of({cpu, cuda}, d.type, where + "." + x);
      check_emulation(where + ".emulate", d.emulate, d.lanes_or_default());
      check_device_sharing(where, d.sharing, d.lanes_or_default());
      check_gpu_sharing(where, d);
    }
  }

  /// Streams and partitions need one process for all replicas, MPS one process
  /// for each.
  void check_gpu_sharing(const std::string& where, const device_config& d) {
    auto sharing = d.cuda.sharing;
    auto in_one = d.isolation == isolation_mode::thread
                  || d.isolation == isolation_mode::device;
    auto expect = [&](const char* what) {
      refuse(where + ".cuda.sharing", "found " + std::string{to_string(sharing)}
                                        + ", which needs isolation: " + what
                                        + " beside it");
    };
    if (is_within_process(sharing) && d.isolation == isolation_mode::process)
      expect("device (or thread)");
    if (sharing == gpu_sharing::mps && in_one)
      expect("process");
    // With turns, a replica that waits for its parameters would block all
    // others. In threads of the node it would block a lane.
    auto takes_turns =
      d.isolation == isolation_mode::device && !is_within_process(sharing);
    if (d.cuda.pipelined
        && (d.isolation == isolation_mode::thread || takes_turns))
      refuse(
        where + ".cuda.pipelined",
        "found true beside isolation: " + std::string{to_string(d.isolation)}
          + " and cuda.sharing: " + std::string{to_string(sharing)}
          + ", expected isolation: "
          + (is_within_process(sharing) ? "device" : "process") + " or auto");
  }

  cluster_config& x_;
  std::map<std::string, std::string>
    taken_; ///< addresses and directories in use, with their key
};

} // namespace

result<cluster_config> parse_config(const std::string& text,
                                    const std::string& file,
                                    const std::vector<std::string>& overrides) {
  cluster_config out;
  yaml_reader reader{file};
  auto base = std::filesystem::absolute(file).parent_path().string();
  auto preset = [&](auto& name) { return preset_values(name, base); };
  if (auto done = reader.read(text, out, overrides, preset); !done)
    return done.failure();
  if (auto fine = checker{out, reader}.run(); !fine)
    return fine.failure();
  return out;
}

result<cluster_config> load_config(const std::string& path,
                                   const std::vector<std::string>& overrides) {
  auto text = read_file(path, max_config);
  if (!text)
    return error{ec::bad_config, text.failure().text, {}};
  auto out = parse_config(*text, path, overrides);
  if (!out)
    return out;
  auto base = std::filesystem::absolute(path).parent_path();
  for (auto* named : {&out->profiles, &out->keys})
    if (!named->empty())
      *named = (base / *named).lexically_normal();
  for (auto& [name, store] : out->object_stores)
    if (!store.credentials.empty())
      store.credentials = (base / store.credentials).lexically_normal();
  for (auto& [name, node] : out->nodes)
    for (auto* directory : {&node.data, &node.models})
      *directory = (base / *directory).lexically_normal();
  return out;
}

const pool_config* cluster_config::pool_of(const std::string& node) const {
  for (auto& [name, x] : pools)
    if (std::count(x.machines.begin(), x.machines.end(), node) != 0)
      return &x;
  return nullptr;
}

std::vector<tenant_address> clients_of(const node_config& node) {
  std::vector<tenant_address> out;
  if (!node.clients.empty())
    out.push_back({default_tenant, node.clients});
  for (auto& [tenant, address] : node.tenants)
    out.push_back({tenant, address});
  return out;
}

std::optional<std::string> node_at(const cluster_config& config,
                                   const std::string& address) {
  for (auto& [name, node] : config.nodes)
    if (node.peers == address || node.advertise == address)
      return name;
  return std::nullopt;
}

std::string print_config(const cluster_config& config) {
  return yaml_writer::write(config);
}

result<std::string> choose_node(const cluster_config& config,
                                const std::string& wanted) {
  auto names =
    joined(config.nodes, ", ", [](auto& node) { return node.first; });
  if (wanted.empty() && config.nodes.size() == 1)
    return config.nodes.begin()->first;
  if (wanted.empty())
    return error{ec::bad_config,
                 "the config has several nodes (" + names
                   + "); select one with --node",
                 {}};
  if (!config.nodes.contains(wanted))
    return error{ec::bad_config,
                 "no node " + shown(wanted) + " in the config; it has " + names,
                 {}};
  return wanted;
}

} // namespace millrace
