// SPDX-License-Identifier: Apache-2.0
#include "actors/policies/place/filters.hpp"

#include <algorithm>

#include "actors/policies/state/configured_groups.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

bool is_avoided(const replica_group& x, const std::string& node) {
  return std::count(x.avoid.begin(), x.avoid.end(), node) != 0;
}

bool is_named(const replica_group& x, const std::string& node,
              const device_info& device) {
  return x.device.empty() || selects_device(x.device, node, device);
}

/// Returns the first filter that a device fails, without `cache` and `memory`.
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
  if (!room.has_bundle(p, x))
    return placement_filter::bundle;
  return std::nullopt;
}

/// Explains a refusal by filter `cache`.
std::string why_no_cache(const device_capacity& room, const replica_group& x,
                         const std::vector<size_t>& devices) {
  uint64_t most = 0, bytes = 0;
  for (auto at : devices) {
    most = std::max(most, room[at].node->cache_memory);
    bytes = std::max(bytes, room.bytes_of(room[at], x));
  }
  return "no node has memory to fetch the " + format_bytes(bytes)
         + " of the bundle: "
         + (bytes > most ? "nodes have " + format_bytes(most) + " at most"
                         : "other fetched bundles take it");
}

std::string name_of(const device_room& p) {
  return p.node->node.name + "/" + p.device->id;
}

uint64_t free_memory(const device_room& p) {
  return p.device->memory.value - std::min(p.device->memory.value, p.held);
}

uint64_t free_units(const device_room& p) {
  return p.device->units - std::min(p.device->units, p.units);
}

bool has_memory(const device_capacity& room, const replica_group& x,
                size_t device) {
  auto& p = room[device];
  return p.has_room(p.held, room.of(p, x).bytes);
}

/// Returns the resource that a device lacks for a replica, with amounts.
std::string lack(const device_capacity& room, const replica_group& x,
                 size_t device) {
  auto& p = room[device];
  if (!has_memory(room, x, device))
    return "asked " + format_bytes(room.of(p, x).bytes) + ", free "
           + format_bytes(free_memory(p));
  if (!p.has_units(p.units, x.units))
    return "asked " + std::to_string(x.units) + " units, free "
           + std::to_string(free_units(p)) + " of "
           + std::to_string(p.device->units);
  return "its node has no memory for the bundle";
}

/// Explains a refusal by filter `memory`. `most` has most memory free.
std::string why_no_memory(const device_capacity& room, const replica_group& x,
                          const device_room& most) {
  return "no device has room (asked " + format_bytes(room.of(most, x).bytes)
         + ", free " + format_bytes(free_memory(most)) + " at most, on "
         + name_of(most) + ")";
}

/// Explains a refusal by filter `units`. `most` has most units free.
std::string why_no_units(const replica_group& x, const device_room& most) {
  return "no device has units (asked " + std::to_string(x.units) + ", free "
         + std::to_string(free_units(most)) + " of "
         + std::to_string(most.device->units) + " at most, on " + name_of(most)
         + ")";
}

} // namespace

bool is_eligible(const device_capacity& room, const replica_group& group,
                 size_t device) {
  return !standing_failure(room, group, device);
}

bool is_selected(const replica_group& group, const std::string& node,
                 const device_info& device) {
  return is_named(group, node, device) && !is_avoided(group, node);
}

std::vector<size_t> eligible_devices(const device_capacity& room,
                                     const replica_group& group) {
  std::vector<size_t> out;
  for (size_t i = 0; i < room.size(); ++i)
    if (!standing_failure(room, group, i))
      out.push_back(i);
  return out;
}

bool has_room(const device_capacity& room, const replica_group& group,
              size_t device, bool whole) {
  auto& p = room[device];
  auto takes = room.of(p, group);
  return (whole ? p.has_room(p.reserved, takes.whole)
                : p.has_room(p.held, takes.bytes))
         && p.has_units(p.units, takes.units) && room.can_get(p, group);
}

placement_map::refusal refuse(const device_capacity& room,
                              const placement_request& request, size_t number,
                              uint64_t count) {
  auto& g = *request.group;
  auto refused = [&](placement_filter by, std::string why) {
    return placement_map::refusal{number, count, std::string{to_string(by)},
                                  std::move(why)};
  };
  auto can_get = [&](size_t at) {
    return is_eligible(room, g, at) && room.can_get(room[at], g);
  };
  auto most = room.first_device(device_order::most_memory, g, can_get);
  if (most && !has_memory(room, g, *most))
    return refused(placement_filter::memory,
                   why_no_memory(room, g, room[*most]));
  if (most) {
    auto units = room.first_device(device_order::most_units, g, [&](size_t at) {
      return can_get(at) && has_memory(room, g, at);
    });
    return refused(placement_filter::units, why_no_units(g, room[*units]));
  }
  if (auto open = eligible_devices(room, g); !open.empty())
    return refused(placement_filter::cache, why_no_cache(room, g, open));
  auto last = placement_filter::draining;
  for (size_t i = 0; i < room.size(); ++i)
    last = std::max(last, *standing_failure(room, g, i));
  return refused(last, "no ready node that has the bundle, or can get it, has"
                       " the device in service");
}

std::optional<std::string> find_fault(const placement_map& map,
                                      std::span<const placement_request> wanted,
                                      device_capacity& room) {
  capacity_reservation trial{room};
  std::vector<uint64_t> placed(wanted.size());
  for (auto& c : map.chosen) {
    if (c.request >= wanted.size() || c.device >= room.size())
      return "it names an unknown request or device";
    auto& r = wanted[c.request];
    auto where = name_of(room[c.device]);
    if (++placed[c.request] > r.missing)
      return "it has more replicas of " + r.group->id + " than were asked for";
    if (auto failed = standing_failure(room, *r.group, c.device))
      return where + " cannot have " + r.group->id + ": "
             + std::string{to_string(*failed)};
    if (!has_room(room, *r.group, c.device))
      return where + " has no room for " + r.group->id + ": "
             + lack(room, *r.group, c.device);
    trial.book(c.device, *r.group);
  }
  return std::nullopt;
}

} // namespace millrace
