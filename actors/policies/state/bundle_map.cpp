// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/state/bundle_map.hpp"

#include <algorithm>
#include <iterator>

namespace millrace {

std::vector<bundle_map::identity>
bundle_map::identities(const std::vector<model_info>& xs) {
  std::vector<identity> out;
  out.reserve(xs.size());
  for (auto& x : xs)
    out.push_back({x.model, x.version, x.content, x.bytes, x.layer_bytes});
  return out;
}

bool bundle_map::set(size_t number, const node_state& node) {
  auto& [disk, kept] = known_[number];
  auto disk_now = identities(node.models), kept_now = identities(node.kept);
  auto same = disk == disk_now && kept == kept_now;
  remove(number, disk, &node_state::models);
  remove(number, kept, &node_state::kept);
  disk = std::move(disk_now);
  kept = std::move(kept_now);
  add(number, node, &node_state::models);
  add(number, node, &node_state::kept);
  return !same;
}

void bundle_map::add(size_t number, const node_state& node, list which) {
  for (auto& x : node.*which) {
    auto& e = entries_[x.model][x.version];
    auto& nodes = which == &node_state::models ? e.disk : e.kept;
    nodes.emplace(number, &x); // the first of duplicates counts
    ++e.contents[x.content];
  }
}

void bundle_map::remove(size_t number, const std::vector<identity>& xs,
                        list which) {
  for (auto& x : xs) {
    auto versions = entries_.find(x.model);
    auto i = versions->second.find(x.version);
    auto& e = i->second;
    (which == &node_state::models ? e.disk : e.kept).erase(number);
    if (auto c = e.contents.find(x.content); --c->second == 0)
      e.contents.erase(c);
    if (e.contents.empty())
      versions->second.erase(i);
    if (versions->second.empty())
      entries_.erase(versions);
  }
}

const bundle_map::entry* bundle_map::find(const std::string& model,
                                          uint64_t version) const {
  auto i = entries_.find(model);
  if (i == entries_.end())
    return nullptr;
  auto k = i->second.find(version);
  return k == i->second.end() ? nullptr : &k->second;
}

const model_info* bundle_map::on_disk(size_t number, const std::string& model,
                                      uint64_t version) const {
  auto* e = find(model, version);
  if (e == nullptr)
    return nullptr;
  auto i = e->disk.find(number);
  return i == e->disk.end() ? nullptr : i->second;
}

const model_info* bundle_map::any(const std::string& model,
                                  uint64_t version) const {
  auto* e = find(model, version);
  if (e == nullptr)
    return nullptr;
  auto& nodes = e->disk.empty() ? e->kept : e->disk;
  return nodes.begin()->second;
}

const model_info* bundle_map::for_node(size_t number, const node_state& node,
                                       const std::string& model,
                                       uint64_t version) const {
  auto* e = find(model, version);
  if (e == nullptr)
    return nullptr;
  if (auto i = e->disk.find(number); i != e->disk.end())
    return i->second;
  auto* meant = (e->disk.empty() ? e->kept : e->disk).begin()->second;
  if (meant->content.empty())
    return nullptr;
  auto kept = e->kept.find(number);
  auto has = kept != e->kept.end() && kept->second->content == meant->content;
  return has || node.fetches ? meant : nullptr;
}

const model_info* bundle_map::only(const std::string& model,
                                   uint64_t version) const {
  auto* e = find(model, version);
  return e != nullptr && e->contents.size() == 1
             && !e->contents.begin()->first.empty()
           ? any(model, version)
           : nullptr;
}

std::vector<size_t> bundle_map::holders(const std::string& model,
                                        uint64_t version) const {
  std::vector<size_t> disk, kept, out;
  if (auto* e = find(model, version)) {
    for (auto& [number, its] : e->disk)
      disk.push_back(number);
    for (auto& [number, its] : e->kept)
      kept.push_back(number);
  }
  std::set_union(disk.begin(), disk.end(), kept.begin(), kept.end(),
                 std::back_inserter(out));
  return out;
}

size_t bundle_map::holder_count(const std::string& model,
                                uint64_t version) const {
  auto* e = find(model, version);
  return e == nullptr ? 0 : e->disk.size() + e->kept.size();
}

} // namespace millrace
