// SPDX-License-Identifier: Apache-2.0
#include "config/fault_checker.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace millrace {

using namespace std::string_literals;

void fault_checker::known_bundle(const std::string& key,
                                 const std::string& name) {
  auto& bundles = x_.spec.bundles;
  if (!bundles.contains(name))
    refuse(key, "no model " + shown(name) + " under 'bundles'; there are "
                  + joined(bundles, ", ", [](auto& x) { return x.first; }));
}

void fault_checker::check_faults() {
  for (size_t i = 0; i < x_.spec.faults.size(); ++i) {
    auto& x = x_.spec.faults[i];
    auto key = at("faults", i);
    check_times(key, x);
    check_actor(key, x);
    using enum fault_kind;
    only_of({kill, hang, slow, partition, one_way, loss, delay, device, load,
             store, disk, wipe, process, gpu},
            x.kind, key + ".lasts");
    only_of({loss, device, load, store, disk, process}, x.kind, key + ".part");
    only_of({slow}, x.kind, key + ".factor");
    only_of({delay}, x.kind, key + ".by");
    only_of({crash}, x.kind, key + ".actor");
    check_places(key + ".nodes", x);
  }
}

void fault_checker::check_times(const std::string& key,
                                const fault_spec& fault) {
  constexpr int64_t faults_max = 100'000;
  auto length = x_.spec.length;
  auto too_often = [&](microseconds period) {
    return period > 0us && length / period > faults_max;
  };
  if (fault.at.has_value() + (fault.every > 0us) + (fault.each > 0us) != 1)
    refuse(key, "expected one of 'at', 'every' and 'each'");
  if (fault.at && *fault.at >= length)
    refuse(key + ".at", "is after the end of the run");
  if (too_often(fault.every))
    refuse(key + ".every", "makes more than 100,000 faults");
  if (too_often(fault.each))
    refuse(key + ".each", "makes more than 100,000 faults");
  if (fault.each >= length)
    refuse(key + ".each", "is longer than the run, so no fault occurs");
}

/// Only a node with the actor's role has the actor.
void fault_checker::check_actor(const std::string& key,
                                const fault_spec& fault) {
  using enum node_role;
  constexpr std::array actors{
    std::pair{"gateway", gateway},      std::pair{"router", gateway},
    std::pair{"executor", worker},      std::pair{"cache", worker},
    std::pair{"replica", worker},       std::pair{"registry", controller},
    std::pair{"placement", controller}, std::pair{"autoscaler", controller}};
  if (fault.actor.empty() || fault.actor == "monitor")
    return; // every node has one
  auto i = std::find_if(actors.begin(), actors.end(), [&](auto& a) {
    return fault.actor == a.first || fault.actor.starts_with(a.first + "/"s);
  });
  if (i == actors.end())
    return refuse(
      key + ".actor",
      "expected monitor, "
        + joined(actors, ", ", [](auto& a) { return std::string{a.first}; })
        + ", or such as executor/DEVICE, found " + shown(fault.actor));
  if (fault.nodes.empty() && i->second != worker)
    return refuse(key + ".nodes", "expected nodes that have a " + fault.actor
                                    + ": the default is the workers");
  for (auto& name : fault.nodes)
    for (auto& node : nodes_of(x_, name)) {
      auto& roles = x_.cluster.nodes.at(node).roles;
      if (std::count(roles.begin(), roles.end(), i->second) == 0)
        return refuse(key + ".nodes", shown(name) + " has no " + fault.actor
                                        + ": it is no "
                                        + std::string{to_string(i->second)});
    }
}

void fault_checker::check_places(const std::string& key,
                                 const fault_spec& fault) {
  for (size_t k = 0; k < fault.nodes.size(); ++k)
    if (auto in_use = parse_place_in_use(fault.nodes[k]))
      known_bundle(at(key, k), in_use->model);
    else
      check_place(at(key, k), fault.nodes[k], fault.kind);
}

void fault_checker::check_place(const std::string& key, const std::string& name,
                                fault_kind kind) {
  auto where = nodes_of(x_, name);
  if (where.empty())
    refuse(key, "no node or host group is called " + shown(name));
  else if (needs_devices(kind)
           && x_.cluster.nodes.at(where.front()).devices.empty())
    refuse(key, shown(name) + " has no device, so no "
                  + std::string{to_string(kind)} + " fails there");
}

std::optional<place_in_use> parse_place_in_use(std::string_view place) {
  constexpr std::string_view prefix = "in-use:";
  if (!place.starts_with(prefix) || place.size() == prefix.size())
    return std::nullopt;
  place.remove_prefix(prefix.size());
  auto slash = place.find('/');
  place_in_use out{std::string{place.substr(0, slash)}, std::nullopt};
  if (slash == std::string_view::npos)
    return out;
  auto digits = place.substr(slash + 1);
  uint64_t layer = 0;
  auto [end, failed] =
    std::from_chars(digits.data(), digits.data() + digits.size(), layer);
  if (failed != std::errc{} || end != digits.data() + digits.size())
    return std::nullopt;
  out.first_layer = layer;
  return out;
}

} // namespace millrace
