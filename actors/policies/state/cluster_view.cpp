// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/cluster_view.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

namespace millrace {

uint64_t number_of(const std::string& replica) {
  auto dot = replica.rfind('.');
  return std::strtoull(replica.c_str() + dot + 1, nullptr, 10);
}

void replica_numbers::add(const std::string& replica) {
  auto dot = replica.rfind('.');
  if (dot == std::string::npos)
    return;
  auto& highest = highest_[replica.substr(0, dot)];
  highest = std::max(highest, number_of(replica));
}

std::string replica_numbers::fresh(const std::string& model, uint64_t version) {
  auto stem = model + "." + std::to_string(version);
  return stem + "." + std::to_string(++highest_[stem]);
}

bool is_there(const replica_status& replica) {
  return replica.state == replica_condition::ready
         || replica.state == replica_condition::starting;
}

namespace {

const model_info* find_in(const std::vector<model_info>& all,
                          const std::string& model, uint64_t version) {
  for (auto& x : all)
    if (x.model == model && x.version == version)
      return &x;
  return nullptr;
}

} // namespace

const model_info* bundle_on(const node_state& node, const std::string& model,
                            uint64_t version) {
  return find_in(node.models, model, version);
}

namespace {

// Nodes are in a map by name, or in a list.
const node_state& node_in(const std::pair<const std::string, node_state>& x) {
  return x.second;
}
const node_state& node_in(const node_state* x) {
  return *x;
}

template <class Nodes>
const model_info* find_bundle(const Nodes& nodes, const std::string& model,
                              uint64_t version) {
  for (auto which : {&node_state::models, &node_state::kept})
    for (auto& x : nodes)
      if (auto* found = find_in(node_in(x).*which, model, version))
        return found;
  return nullptr;
}

} // namespace

const model_info* bundle_of(const cluster_view& view, const std::string& model,
                            uint64_t version) {
  return find_bundle(view.nodes, model, version);
}

const model_info* bundle_of(const node_list& nodes, const std::string& model,
                            uint64_t version) {
  return find_bundle(nodes, model, version);
}

bool has_kept(const node_state& node, const model_info& model) {
  auto* kept = find_in(node.kept, model.model, model.version);
  return kept != nullptr && kept->content == model.content;
}

const model_info* bundle_for(const cluster_view& view, const node_state& node,
                             const std::string& model, uint64_t version) {
  if (auto* mine = bundle_on(node, model, version))
    return mine;
  auto* meant = bundle_of(view, model, version);
  if (meant == nullptr || meant->content.empty())
    return nullptr;
  return has_kept(node, *meant) || node.fetches ? meant : nullptr;
}

namespace {

/// Resolves a version among the bundles in caches; 0: none.
template <class Nodes>
uint64_t resolve_kept(const Nodes& nodes, const model_settings& x) {
  std::set<uint64_t> kept, serving;
  for (auto& y : nodes) {
    auto& node = node_in(y);
    for (auto& m : node.kept)
      if (m.model == x.model)
        kept.insert(m.version);
    for (auto& r : node.replicas)
      if (r.what.model == x.model && is_there(r))
        serving.insert(r.what.version);
  }
  if (!x.version.empty() && x.version != "default") {
    std::erase_if(kept, [&](auto v) { return std::to_string(v) != x.version; });
    return kept.empty() ? 0 : *kept.begin();
  }
  for (auto version : serving)
    if (kept.contains(version))
      return version;
  return kept.empty() ? 0 : *kept.rbegin();
}

template <class Nodes>
uint64_t resolve(const Nodes& nodes, const model_settings& x) {
  uint64_t newest = 0, named = 0;
  auto wanted = x.version.empty() ? "default" : x.version;
  for (auto& y : nodes)
    for (auto& m : node_in(y).models) {
      if (m.model != x.model)
        continue;
      newest = std::max(newest, m.version);
      if (std::to_string(m.version) == wanted
          || std::count(m.aliases.begin(), m.aliases.end(), wanted) != 0)
        named = m.version;
    }
  if (newest == 0)
    return resolve_kept(nodes, x);
  return named != 0 ? named : x.version.empty() ? newest : 0;
}

} // namespace

uint64_t resolve_version(const cluster_view& view,
                         const model_settings& settings) {
  return resolve(view.nodes, settings);
}

uint64_t resolve_version(const node_list& nodes,
                         const model_settings& settings) {
  return resolve(nodes, settings);
}

} // namespace millrace
