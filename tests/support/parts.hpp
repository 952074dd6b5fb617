// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "tests/support/virtual_cluster.hpp"

/// \file
/// A simulated cluster that serves the model "m" in parts.

namespace millrace::test {

/// One request per batch, for simple times.
inline model_settings in_parts(uint64_t parts, uint64_t replicas = 1) {
  auto out = want(replicas);
  out.parts = parts;
  out.policy.batch = 1;
  return out;
}

/// A request with outputs that identify it after the last part.
inline infer marked(const virtual_cluster& c, uint64_t id) {
  auto out = c.ask();
  std::string tag(16, '\0');
  std::memcpy(tag.data(), &id, sizeof id);
  out.inputs[0].value.data = shared_bytes::copy_of(tag);
  return out;
}

inline void send(virtual_cluster& c, uint64_t first, uint64_t last) {
  for (auto id = first; id <= last; ++id)
    c.request(id, marked(c, id));
}

/// Returns true if each answer has the output for its own input.
inline bool all_are_right(virtual_cluster& c) {
  return std::all_of(c.replies.begin(), c.replies.end(), [](auto& x) {
    uint64_t mark = 0;
    auto& y = x.second.at(0);
    if (y.status != ec::ok || y.outputs.empty())
      return false;
    std::memcpy(&mark, y.outputs[0].value.data.data(), sizeof mark);
    return mark == x.first;
  });
}

inline void have(virtual_cluster& c, const model_settings& x) {
  REQUIRE(
    c.ask_actor<ack, registry_actor>("./registry", set_model{x, false, {}}));
}

/// The nodes of each part, by the first layer of the part.
inline std::multimap<uint64_t, std::string> holders(virtual_cluster& c,
                                                    size_t workers) {
  std::multimap<uint64_t, std::string> out;
  for (size_t i = 1; i <= workers; ++i) {
    auto name = "w" + std::to_string(i);
    auto status = *c.ask_actor<node_status, supervisor_actor>(
      name + "/supervisor", get_status{});
    for (auto& r : status.replicas)
      if (r.state == replica_condition::ready)
        out.emplace(r.what.layers.first, name);
  }
  return out;
}

/// One node per part, in the order of the parts.
inline std::vector<std::string> nodes_of(virtual_cluster& c, size_t workers) {
  std::vector<std::string> names;
  uint64_t before = UINT64_MAX;
  for (auto& [first, name] : holders(c, workers)) {
    if (first == before)
      names.pop_back();
    names.push_back(name);
    before = first;
  }
  return names;
}

/// The first layer of each replica.
inline std::map<std::string, uint64_t> first_layers(virtual_cluster& c,
                                                    size_t workers) {
  std::map<std::string, uint64_t> out;
  for (size_t i = 1; i <= workers; ++i) {
    auto status = *c.ask_actor<node_status, supervisor_actor>(
      "w" + std::to_string(i) + "/supervisor", get_status{});
    for (auto& r : status.replicas)
      out[r.what.replica] = r.what.layers.first;
  }
  return out;
}

/// Sends a message to a replica and returns the name of its node.
template <class T>
std::string tell_replica(virtual_cluster& c, const std::string& replica,
                         const T& what) {
  std::string out;
  for (auto& [name, node] : c.inside().nodes()) {
    if (!node->process())
      continue;
    c.inside().world().soon(*node->process(), [&, &name = name, &node = node] {
      if (auto x = node->bus()->resolve("./replica/" + replica)) {
        caf::anon_send(caf::actor_cast<caf::actor>(x), what);
        out = name;
      }
    });
  }
  c.drain();
  return out;
}

inline queue_status queue_of(virtual_cluster& c) {
  return *c.ask_actor<queue_status, router_actor>("./router/m.1", get_queue{});
}

} // namespace millrace::test
