// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <caf/actor_control_block.hpp>

#include "models/chunks.hpp"
#include "runtime/time.hpp"
#include "transport/messages/bulk.hpp"

namespace millrace {

/// How sources are assigned to the hosts that fetch a content.
enum class bulk_topology : uint8_t {
  chain,   ///< each host fetches from the host before it
  unicast, ///< all fetch from hosts with the whole content (baseline)
  stores   ///< all fetch from object stores with the content (baseline)
};

constexpr auto names_of(bulk_topology) {
  return name_table{"chain", "unicast", "stores"};
}

/// Object stores are listed as sources like hosts, under names with this
/// prefix, which no host name can have.
inline constexpr std::string_view store_prefix = "store:";

/// A content that a host has, or is fetching.
struct content_state {
  std::string content; ///< SHA-256 of its manifest
  std::string model;
  uint64_t version = 0;
  uint64_t bytes = 0;
  uint64_t chunks = 0; ///< of the whole content; 0: not known yet
  /// Chunks that the host has or will have, and serves; empty: all.
  std::vector<chunk_range> only;
  uint64_t missing = 0; ///< chunks of `only` that have not arrived yet
  /// Token by which other hosts may fetch the content from this one. Empty: the
  /// content is on the disk only, and is served after a pin_content. For an
  /// object store: the folder of the bundle.
  std::string token;
  bool wants = false; ///< the host is fetching it
  transfer_rank rank = transfer_rank::start;
  std::vector<std::string> from; ///< current sources
  bool lasts = false; ///< placed on the disk by a person: never evicted
  /// The source that was lost last, and why, if no chunk has arrived since.
  std::string trouble{};
  std::string after{}; ///< as in set_sources
  bool begun = false;  ///< memory for the content is allocated
  bool on_disk = false;
  MILLRACE_FIELDS(content_state, content, model, version, bytes, chunks, only,
                  missing, token, wants, rank, from, lasts, trouble, after,
                  begun, on_disk)
};

/// Relay to chain controller, at each change: all contents of its host.
struct content_report {
  std::string node;
  uint64_t incarnation = 0;
  std::string rack;
  std::string address; ///< of the node's bulk endpoint
  std::vector<content_state> contents;
  caf::strong_actor_ptr relay;
  /// Host that the node runs on. Nodes of one host share contents in memory.
  /// Empty: the node shares nothing.
  std::string host = {};
  MILLRACE_FIELDS(content_report, node, incarnation, rack, address, contents,
                  relay, host)
};

/// A source of a content.
struct bulk_origin {
  std::string node;
  std::string address;
  std::string token;
  std::vector<chunk_range> only;
  MILLRACE_FIELDS(bulk_origin, node, address, token, only)
};

/// Chain controller to relay: fetch the missing chunks of this content from
/// these sources only. Replaces the previous message.
struct set_sources {
  std::string content;
  std::vector<bulk_origin> from;
  /// The node of the same host that fetches the content and will share it: the
  /// relay waits for that node. Empty: there is none.
  std::string after = {};
  MILLRACE_FIELDS(set_sources, content, from, after)
};

/// Chain controller to relay: other hosts will fetch this content from the
/// node. The node keeps it in memory while `on`.
struct pin_content {
  std::string content;
  bool on = true;
  MILLRACE_FIELDS(pin_content, content, on)
};

/// Chain controller to relay, and from the relay to its cache: contents that
/// must not be evicted. Either no other host has a whole copy, or each other
/// copy may be evicted too. Replaces the previous list.
struct pinned_contents {
  std::vector<std::string> contents;
  MILLRACE_FIELDS(pinned_contents, contents)
};

/// Controller to relays: send a content report. Sent while the chain controller
/// has no reports.
struct report_contents {
  MILLRACE_FIELDS(report_contents)
};

//  -- queries
//  ------------------------------------------------------------------

/// Operator to chain controller: requests chains and copies of all contents.
struct get_chains {
  MILLRACE_FIELDS(get_chains)
};

/// A host in a chain.
struct chain_hop {
  std::string node;
  /// Current sources; none: the host waits for one.
  std::vector<std::string> from;
  uint64_t bytes = 0;   ///< of the content, needed on this host
  uint64_t chunks = 0;  ///< of the content, needed on this host
  uint64_t missing = 0; ///< of `chunks`, not arrived yet
  double rate = 0;      ///< bytes per second, recent average
  std::string trouble;  ///< as in content_state
  std::string after;    ///< as in set_sources
  MILLRACE_FIELDS(chain_hop, node, from, bytes, chunks, missing, rate, trouble,
                  after)
};

/// Hosts that fetch one content, each from the host before it.
struct chain_status {
  std::string content;
  std::string model;
  uint64_t version = 0;
  std::vector<std::string> sources;
  std::vector<chain_hop> hops;
  MILLRACE_FIELDS(chain_status, content, model, version, sources, hops)
};

/// The hosts and object stores with the whole content.
struct content_copies {
  std::string content;
  std::string model;
  uint64_t version = 0;
  std::vector<std::string> hosts;
  MILLRACE_FIELDS(content_copies, content, model, version, hosts)
};

struct chain_list {
  std::vector<chain_status> chains;
  std::vector<content_copies> copies;
  MILLRACE_FIELDS(chain_list, chains, copies)
};

/// Operator to the controller's watch of an object store: requests its state.
struct get_store {
  MILLRACE_FIELDS(get_store)
};

struct store_status {
  std::string url;
  uint64_t models = 0;
  uint64_t bytes = 0; ///< of all weights
  /// Since the last successful read; -1: there was none.
  microseconds read_ago{-1};
  std::string error; ///< why the last read failed
  MILLRACE_FIELDS(store_status, url, models, bytes, read_ago, error)
};

/// Operator to cache: requests the bundles of its host.
struct get_cache {
  MILLRACE_FIELDS(get_cache)
};

/// Where a host has a bundle.
enum class cache_place : uint8_t {
  disk, ///< in the bundle folder, placed by a person
  arriving,
  memory,
  kept,  ///< in the disk cache, fetched from another host
  broken ///< in the bundle folder, but unusable
};

constexpr auto names_of(cache_place) {
  return name_table{"disk", "arriving", "memory", "kept", "broken"};
}

struct cached_bundle {
  std::string model;
  uint64_t version = 0;
  std::string content;
  cache_place state = cache_place::disk;
  uint64_t bytes = 0;
  uint64_t there = 0;   ///< verified bytes
  uint64_t users = 0;   ///< replicas on this host
  microseconds idle{0}; ///< since the last use
  bool last = false;    ///< in pinned_contents: not evicted
  MILLRACE_FIELDS(cached_bundle, model, version, content, state, bytes, there,
                  users, idle, last)
};

struct cache_status {
  uint64_t held = 0;     ///< bytes of memory
  uint64_t capacity = 0; ///< 0: not limited
  std::vector<cached_bundle> bundles;
  uint64_t disk_held = 0;     ///< bytes in the disk cache
  uint64_t disk_capacity = 0; ///< 0: no disk cache
  MILLRACE_FIELDS(cache_status, held, capacity, bundles, disk_held,
                  disk_capacity)
};

} // namespace millrace
