// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/rollout/availability.hpp"

#include <functional>
#include <map>

#include "runtime/text.hpp"

namespace millrace {

wanted_model announcement_of(const model_state& model) {
  wanted_model out;
  out.model = model.settings.model;
  out.version = model.version;
  out.application = model.bundle.application;
  out.tenants = model.settings.tenants;
  out.slo = model.settings.slo;
  out.waits = model.version != 0 && model.settings.replicas > 0;
  out.policy = model.settings.policy;
  if (out.waits)
    out.info = model.bundle;
  return out;
}

std::string why_nowhere(const cluster_view& view,
                        const model_settings& settings) {
  auto workers = false;
  std::map<uint64_t, std::string> there; // versions with their aliases
  for (auto& [name, node] : view.nodes) {
    workers |= !node.devices.empty();
    for (auto* some : {&node.models, &node.kept})
      for (auto& m : *some)
        if (m.model == settings.model && there[m.version].empty())
          there[m.version] = joined(m.aliases, ", ", std::identity{});
  }
  if (!workers)
    return "no worker has joined";
  if (there.empty())
    return "no node has a bundle of the model";
  return "no node has a bundle of version '"
         + (settings.version.empty() ? "default" : settings.version)
         + "'; there is " + joined(there, ", ", [](auto& v) {
             return std::to_string(v.first)
                    + (v.second.empty() ? "" : " (" + v.second + ")");
           });
}

} // namespace millrace
