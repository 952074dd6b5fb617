// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/filters.hpp"

#include <algorithm>

#include "actors/policies/scale/configured_groups.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

bool is_avoided(const replica_group& x, const std::string& node) {
  return std::count(x.avoid.begin(), x.avoid.end(), node) != 0;
}

bool is_named(const replica_group& x, const std::string& node,
              const device_info& device) {
  return x.device.empty() || x.device == device.id || x.device == device.kind
         || x.device == node + "/" + device.id;
}

/// The first filter that a device fails. Leaves out `cache` and `memory`.
std::optional<placement_filter> standing_failure(const device_capacity& room,
                                                 const replica_group& x,
                                                 size_t device) {
  auto& p = room[device];
  auto& node = p.node->node.name;
  if (p.node->draining)
    return placement_filter::draining;
  if (!is_named(x, node, *p.device))
    return placement_filter::device;
  if (is_avoided(x, node))
    return placement_filter::avoid;
  if (!room.has_bundle(*p.node, x))
    return placement_filter::bundle;
  return std::nullopt;
}

/// Explains a refusal by filter `cache`.
std::string why_no_cache(const device_capacity& room, const replica_group& x,
                         const std::vector<size_t>& devices) {
  uint64_t most = 0, bytes = 0;
  for (auto at : devices) {
    most = std::max(most, room[at].node->cache_memory);
    bytes = std::max(bytes, room.bytes_of(*room[at].node, x));
  }
  return "no node has memory for the " + format_bytes(bytes)
         + " that others are to give it: "
         + (bytes > most ? "they have " + format_bytes(most) + " at most"
                         : "what others gave for replicas there takes it");
}

} // namespace

bool is_selected(const replica_group& x, const std::string& node,
                 const device_info& device) {
  return is_named(x, node, device) && !is_avoided(x, node);
}

std::vector<size_t> eligible_devices(const device_capacity& room,
                                     const replica_group& x) {
  std::vector<size_t> out;
  for (size_t i = 0; i < room.size(); ++i)
    if (!standing_failure(room, x, i))
      out.push_back(i);
  return out;
}

bool has_room(const device_capacity& room, const replica_group& x,
              size_t device, bool whole) {
  auto& p = room[device];
  auto takes = room.of(*p.node, x.model, x.version, x.layers);
  return (whole ? p.has_room(p.reserved, takes.whole)
                : p.has_room(p.held, takes.bytes))
         && room.can_get(*p.node, x.model, x.version, x.layers);
}

placement_map::refusal refuse(const device_capacity& room,
                              const placement_request& x, size_t number,
                              uint64_t count) {
  auto& g = *x.group;
  auto name = [](placement_filter f) { return std::string{to_string(f)}; };
  auto open = eligible_devices(room, g);
  if (open.empty()) {
    auto last = placement_filter::draining;
    for (size_t i = 0; i < room.size(); ++i)
      last = std::max(last, *standing_failure(room, g, i));
    return {number, count, name(last),
            "no ready node that has the bundle, or can get it, has the device"
            " in service"};
  }
  auto can = std::any_of(open.begin(), open.end(), [&](auto at) {
    return room.can_get(*room[at].node, g.model, g.version, g.layers);
  });
  if (can)
    return {number, count, name(placement_filter::memory),
            "no device has room"};
  return {number, count, name(placement_filter::cache),
          why_no_cache(room, g, open)};
}

std::optional<std::string> find_fault(const placement_map& x,
                                      std::span<const placement_request> wanted,
                                      device_capacity room) {
  std::vector<uint64_t> placed(wanted.size());
  for (auto& c : x.chosen) {
    if (c.request >= wanted.size() || c.device >= room.size())
      return "it names a request or a device that is not there";
    auto& r = wanted[c.request];
    auto& p = room[c.device];
    auto where = p.node->node.name + "/" + p.device->id;
    if (++placed[c.request] > r.missing)
      return "it has more replicas of " + r.group->id + " than were asked for";
    if (auto failed = standing_failure(room, *r.group, c.device))
      return where + " cannot have " + r.group->id + ": "
             + std::string{to_string(*failed)};
    if (!has_room(room, *r.group, c.device))
      return where + " has no room for " + r.group->id;
    room.book(c.device, *r.group);
  }
  return std::nullopt;
}

} // namespace millrace
