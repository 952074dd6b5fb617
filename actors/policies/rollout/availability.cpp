// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/availability.hpp"

#include <functional>
#include <map>

#include "runtime/text.hpp"

namespace millrace {

wanted_model announcement_of(const model_state& x) {
  wanted_model out;
  out.model = x.settings.model;
  out.version = x.version;
  out.application = x.bundle.application;
  out.tenants = x.settings.tenants;
  out.slo = x.settings.slo;
  out.waits = x.version != 0 && x.settings.replicas > 0;
  out.policy = x.settings.policy;
  if (out.waits)
    out.info = x.bundle;
  return out;
}

std::string why_nowhere(const cluster_view& view, const model_settings& x) {
  auto workers = false;
  std::map<uint64_t, std::string> there; // versions, with what they are called
  for (auto& [name, node] : view.nodes) {
    workers |= !node.devices.empty();
    for (auto* some : {&node.models, &node.kept})
      for (auto& m : *some)
        if (m.model == x.model && there[m.version].empty())
          there[m.version] = joined(m.aliases, ", ", std::identity{});
  }
  if (!workers)
    return "no worker is there";
  if (there.empty())
    return "no node has a bundle of it";
  return "no node has a bundle of version '"
         + (x.version.empty() ? "default" : x.version) + "'; there is "
         + joined(there, ", ", [](auto& v) {
             return std::to_string(v.first)
                    + (v.second.empty() ? "" : " (" + v.second + ")");
           });
}

} // namespace millrace
