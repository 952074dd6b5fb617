// SPDX-License-Identifier: Apache-2.0
#include "transport/keys/node_keys.hpp"

#include "runtime/text.hpp"
#include "transport/keys/key_file.hpp"

namespace millrace {

namespace {

/// Reads a key file and checks that its two keys form a pair.
result<key_file> read_pair(const std::string& path, const std::string& name) {
  auto x = read_key_file(path);
  if (!x)
    return x;
  if (x->name != name)
    return error{ec::bad_config,
                 path + ": is the key of " + shown(x->name) + ", not of "
                   + shown(name),
                 {}};
  if (!belong_together(x->pair()))
    return error{
      ec::bad_config, path + ": its two keys do not belong together", {}};
  return x;
}

/// Why a node cannot run with this key; empty if it can.
std::string objection(const node_keys_wanted& wanted, const key_file& x,
                      const allowed_keys& allowed) {
  if (wanted.controller && x.role != role::controller)
    return "the node is a controller, its key is not (expected role:"
           " controller)";
  if (x.role != role::node && x.role != role::controller)
    return "expected the key of a node or controller";
  auto i = allowed.keys.find(x.name);
  if (i == allowed.keys.end() || i->second.public_key != x.public_key
      || i->second.role != x.role)
    return "is not on the list " + allowed_path(wanted.folder)
           + " with that key and role";
  return {};
}

} // namespace

result<node_keys> read_node_keys(const node_keys_wanted& wanted) {
  node_keys out;
  out.list = allowed_path(wanted.folder);
  auto allowed = read_allowed_keys(out.list);
  if (!allowed)
    return allowed.failure();
  out.allowed = std::move(*allowed);
  auto path = key_path(wanted.folder, wanted.node);
  auto own = read_pair(path, wanted.node);
  if (!own)
    return own.failure();
  if (auto why = objection(wanted, *own, out.allowed); !why.empty())
    return error{ec::bad_config, path + ": " + why, {}};
  out.own = own->pair();
  out.own_role = *own->role;
  if (wanted.cluster_pair) {
    auto cluster =
      read_pair(key_path(wanted.folder, cluster_key_name), cluster_key_name);
    if (!cluster)
      return cluster.failure();
    out.cluster = cluster->pair();
  }
  return out;
}

} // namespace millrace
