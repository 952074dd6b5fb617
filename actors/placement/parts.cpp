// SPDX-License-Identifier: Apache-2.0
#include "actors/placement/parts.hpp"

#include <algorithm>
#include <map>

#include "transport/messages/wanted_cuts.hpp"

namespace millrace {

layer_range whole_of(const model_info& x) {
  return {0, std::max<uint64_t>(1, x.layer_bytes.size())};
}

uint64_t bytes_of(const model_info& x, const layer_range& layers) {
  auto& all = x.layer_bytes;
  if (layers == layer_range{} || layers == whole_of(x) || all.empty())
    return x.bytes;
  uint64_t out = 0;
  for (auto i = layers.first; i < layers.last && i < all.size(); ++i)
    out += all[i];
  return out;
}

result<std::vector<layer_range>> parts_of(const model_settings& x,
                                          const model_info& info) {
  auto layers = whole_of(info).last;
  if (auto fine = check_cuts(wanted_cuts(x), layers); !fine)
    return fine.failure();
  auto cuts = x.cuts;
  if (cuts.empty() && x.parts > 1)
    cuts = even_cuts(info.layer_bytes, x.parts);
  std::vector<layer_range> out;
  uint64_t first = 0;
  for (auto cut : cuts) {
    out.push_back({first, cut});
    first = cut;
  }
  out.push_back({first, layers});
  return out;
}

uint64_t wanted_of(const model_settings& x, size_t part) {
  return x.replicas == 0 || x.replicas_of_parts.empty()
           ? x.replicas
           : x.replicas_of_parts[part];
}

copy_count count_copies(const cluster_view& view, const model_settings& x) {
  std::map<layer_range, copy_count> by_part;
  for (auto& [name, node] : view.nodes)
    for (auto& r : node.replicas) {
      if (r.what.model != x.model || !is_there(r))
        continue;
      auto& n = by_part[r.what.layers];
      ++(r.state == replica_condition::ready ? n.ready : n.starting);
    }
  auto* info = bundle_of(view, x.model, resolve_version(view, x));
  result<std::vector<layer_range>> parts = std::vector<layer_range>{};
  if (info != nullptr)
    parts = parts_of(x, *info);
  copy_count out;
  if (!parts || parts->size() <= 1) {
    for (auto& [part, n] : by_part) {
      out.ready += n.ready;
      out.starting += n.starting;
    }
    return out;
  }
  out.ready = UINT64_MAX;
  for (auto& part : *parts) {
    auto& n = by_part[part];
    out.ready = std::min(out.ready, n.ready);
    out.starting = std::max(out.starting, n.starting);
  }
  if (auto whole = by_part.find(whole_of(*info)); whole != by_part.end()) {
    out.ready += whole->second.ready;
    out.starting += whole->second.starting;
  }
  return out;
}

} // namespace millrace
