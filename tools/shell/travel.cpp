// SPDX-License-Identifier: Apache-2.0

/// \file
/// The commands `chains`, `cache` and `stores`: transfers of models between
/// hosts, models in hosts' caches, and object stores.

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <tuple>

#include "models/chunks.hpp"
#include "runtime/text.hpp"
#include "shell/ask.hpp"
#include "shell/tables.hpp"
#include "shell/views.hpp"

namespace millrace {

namespace {

/// A bar of `width` characters, filled up to `part`.
std::string bar(double part, size_t width) {
  auto full = static_cast<size_t>(part * static_cast<double>(width) + 0.5);
  std::string out;
  for (size_t i = 0; i < width; ++i)
    out += i < full ? "#" : ".";
  return out;
}

/// The part of a host's missing chunks that has arrived, 0 to 1.
double part_there(const chain_hop& x) {
  return x.chunks == 0
           ? 0
           : 1 - static_cast<double>(x.missing) / static_cast<double>(x.chunks);
}

std::string name_of(const std::string& model, uint64_t version) {
  return model + " " + std::to_string(version);
}

/// The receiving host with the lowest rate, which limits the hosts after it in
/// the chain. Null if that rate is at least 80 % of the highest.
const chain_hop* slowest_of(const chain_status& x) {
  const chain_hop* slowest = nullptr;
  double most = 0;
  for (auto& hop : x.hops) {
    most = std::max(most, hop.rate);
    if (hop.rate > 0 && (slowest == nullptr || hop.rate < slowest->rate))
      slowest = &hop;
  }
  return slowest != nullptr && slowest->rate < 0.8 * most ? slowest : nullptr;
}

/// Bytes in use of a capacity; 0: unlimited.
std::string share_of(const char* what, uint64_t held, uint64_t capacity) {
  auto out = format_bytes(held) + " of " + what;
  return capacity == 0 ? out : out + " (of " + format_bytes(capacity) + ")";
}

void draw(const chain_status& x) {
  std::cout << name_of(x.model, x.version) << ": "
            << (x.sources.empty()
                  ? "no host is a complete source"
                  : joined(x.sources, " + ", [](auto& y) { return y; }));
  for (auto& hop : x.hops)
    if (hop.after.empty())
      std::cout << " > " << hop.node;
  std::cout << "\n";
  auto* slowest = slowest_of(x);
  size_t width = 0;
  for (auto& hop : x.hops)
    width = std::max(width, hop.node.size());
  for (auto& hop : x.hops) {
    auto part = part_there(hop);
    std::cout << "  " << hop.node << std::string(width - hop.node.size(), ' ')
              << "  [" << bar(part, 24) << "] " << fixed(100 * part, 0)
              << " % of " << format_bytes(hop.bytes);
    if (hop.rate > 0)
      std::cout << ", " << format_bytes(static_cast<uint64_t>(hop.rate))
                << "/s";
    if (!hop.after.empty())
      std::cout << ", shares the bytes of " << hop.after << " (same host)";
    else if (hop.from.empty())
      std::cout << (x.sources.empty() ? ", waits for a source"
                                      : ", waits for its turn");
    if (!hop.trouble.empty())
      std::cout << "; source failed: " << hop.trouble;
    if (&hop == slowest)
      std::cout << "  <- the slowest";
    std::cout << "\n";
  }
}

} // namespace

int show_chains(shell& in, const arguments&) {
  auto x = ask_controller<chain_list>(in.cluster, "chains", get_chains{});
  if (!x)
    return complain(in, x.failure().text);
  if (in.form == output_form::json)
    return print_json(to_json(*x));
  if (x->chains.empty())
    std::cout << "no model is on its way from host to host\n";
  for (auto& chain : x->chains)
    draw(chain);
  std::sort(x->copies.begin(), x->copies.end(), [](auto& a, auto& b) {
    return std::tie(a.model, a.version) < std::tie(b.model, b.version);
  });
  table rows{{"MODEL", "VERSION", "COPIES", "NODES"}};
  for (auto& y : x->copies)
    rows.push_back({y.model, std::to_string(y.version),
                    std::to_string(y.hosts.size()),
                    joined(y.hosts, ", ", std::identity{})});
  print_table(rows);
  std::cout << std::flush;
  return exit_ok;
}

int show_cache(shell& in, const arguments& args) {
  auto nodes = node_names(in.cluster, args);
  if (!nodes)
    return complain(in, nodes.failure().text);
  auto all = ask_each<cache_status>(in.cluster, *nodes, "cache", get_cache{});
  if (in.form == output_form::json) {
    auto out = json::object();
    for (auto& [node, x] : all.good)
      out[node] = to_json(x);
    return print_json(json{{"nodes", out}});
  }
  table rows{{"MODEL", "VERSION", "NODE", "PLACE", "BYTES", "VERIFIED", "USERS",
              "IDLE"}};
  for (auto& [node, x] : all.good)
    for (auto& y : x.bundles) {
      auto in_memory =
        y.state == cache_place::arriving || y.state == cache_place::memory;
      rows.push_back(
        {y.model, std::to_string(y.version), node,
         std::string{to_string(y.state)} + (y.last ? ", to stay" : ""),
         format_bytes(y.bytes), format_bytes(y.there),
         in_memory ? std::to_string(y.users) : "-",
         !in_memory    ? "-"
         : y.users > 0 ? "in use"
                       : format_duration(y.idle)});
    }
  print_table(rows);
  for (auto& [node, x] : all.good) {
    std::vector<std::string> parts;
    if (x.held > 0 || x.capacity > 0)
      parts.push_back(share_of("memory for models", x.held, x.capacity));
    if (x.disk_capacity > 0)
      parts.push_back(share_of("disk for models that came from others",
                               x.disk_held, x.disk_capacity));
    if (!parts.empty())
      std::cout << node << ": " << joined(parts, ", ", std::identity{}) << "\n";
  }
  std::cout << std::flush;
  return exit_ok;
}

int show_stores(shell& in, const arguments&) {
  auto controller = find_controller(in.cluster);
  if (!controller)
    return complain(in, controller.failure().text);
  auto node =
    in.cluster.ask<node_status>(*controller + "/supervisor", get_status{});
  if (!node)
    return complain(in, node.failure().text);
  constexpr std::string_view prefix = "stores/";
  std::map<std::string, store_status> all;
  for (auto& actor : node->actors) {
    if (!actor.name.starts_with(prefix))
      continue;
    auto x =
      in.cluster.ask<store_status>(*controller + "/" + actor.name, get_store{});
    if (!x)
      return complain(in, x.failure().text);
    all.emplace(actor.name.substr(prefix.size()), std::move(*x));
  }
  if (in.form == output_form::json) {
    auto out = json::object();
    for (auto& [name, x] : all)
      out[name] = to_json(x);
    return print_json(json{{"stores", out}});
  }
  table rows{{"STORE", "URL", "MODELS", "WEIGHTS", "READ"}};
  for (auto& [name, x] : all)
    rows.push_back(
      {name, x.url, std::to_string(x.models), format_bytes(x.bytes),
       x.read_ago < microseconds{0} ? "never"
                                    : format_duration(x.read_ago) + " ago"});
  print_table(rows);
  for (auto& [name, x] : all)
    if (!x.error.empty())
      std::cout << name << ": " << x.error << "\n";
  std::cout << std::flush;
  return exit_ok;
}

} // namespace millrace
