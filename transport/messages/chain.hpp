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

/// How those that want a content get it.
enum class bulk_topology : uint8_t {
  chain,   ///< each from the one before it
  unicast, ///< all from hosts with the whole content: to compare with
  stores   ///< all from object stores that have the content: to compare with
};

constexpr auto names_of(bulk_topology) {
  return name_table{"chain", "unicast", "stores"};
}

/// An object store is a source as hosts are, and stands among them by a name
/// that none of them can have.
inline constexpr std::string_view store_prefix = "store:";

/// What a host has of a content, or is getting.
struct content_state {
  std::string content; ///< SHA-256 of its manifest
  std::string model;
  uint64_t version = 0;
  uint64_t bytes = 0;
  uint64_t chunks = 0; ///< of all of it; 0: not known yet
  /// Those that it has or will have, by which others may ask it; empty: all.
  std::vector<chunk_range> only;
  uint64_t missing = 0; ///< chunks of these that are yet to come
  /// By which it gives of it; empty: it is on its disk alone, and gives once it
  /// is told to hold it.
  /// Of an object store: the folder that it is in.
  std::string token;
  bool wants = false; ///< it is getting it
  transfer_rank rank = transfer_rank::start;
  std::vector<std::string> from; ///< whom it gets it from
  bool lasts = false; ///< somebody has put it there: it is never evicted
  /// Whom it lost last of those, and why, if nothing came since.
  std::string trouble{};
  std::string after{}; ///< as in set_sources
  bool begun = false;  ///< it has memory of its own for what comes
  bool on_disk = false;
  MILLRACE_FIELDS(content_state, content, model, version, bytes, chunks, only,
                  missing, token, wants, rank, from, lasts, trouble, after,
                  begun, on_disk)
};

/// Relay to chain controller, whenever it changes: all that its host has.
struct content_report {
  std::string node;
  uint64_t incarnation = 0;
  std::string rack;
  std::string address; ///< of its bulk endpoint
  std::vector<content_state> contents;
  caf::strong_actor_ptr relay;
  /// That the node is on; those on one share what they have in memory. Empty:
  /// it shares nothing.
  std::string host = {};
  MILLRACE_FIELDS(content_report, node, incarnation, rack, address, contents,
                  relay, host)
};

/// Whom to get a content from.
struct bulk_origin {
  std::string node;
  std::string address;
  std::string token;
  std::vector<chunk_range> only;
  MILLRACE_FIELDS(bulk_origin, node, address, token, only)
};

/// Chain controller to relay: get what you want of this content from these, and
/// from nobody else. Again and again: the last word counts.
struct set_sources {
  std::string content;
  std::vector<bulk_origin> from;
  /// Not yet: this node of the same host gets it, and will share it. Empty:
  /// none does.
  std::string after = {};
  MILLRACE_FIELDS(set_sources, content, from, after)
};

/// Chain controller to relay: others are to get this from you. Have it in
/// memory while they do.
struct pin_content {
  std::string content;
  bool on = true;
  MILLRACE_FIELDS(pin_content, content, on)
};

/// Chain controller to relay, and from there to its cache: these are not to go,
/// for nobody else has all of one, or nobody has one for good and all others
/// may let it go. Takes the place of what was said before.
struct pinned_contents {
  std::vector<std::string> contents;
  MILLRACE_FIELDS(pinned_contents, contents)
};

/// A controller whose chain controller knows nothing yet asks for content
/// reports.
struct report_contents {
  MILLRACE_FIELDS(report_contents)
};

// -- looking in ---------------------------------------------------------------

/// Who gets what from whom? To a chain controller.
struct get_chains {
  MILLRACE_FIELDS(get_chains)
};

/// A host in a chain.
struct chain_hop {
  std::string node;
  std::vector<std::string> from; ///< none: it waits for somebody who has it
  uint64_t bytes = 0;            ///< that it wants
  uint64_t chunks = 0;           ///< that those are
  uint64_t missing = 0;          ///< of those
  double rate = 0;               ///< bytes a second, lately
  std::string trouble;           ///< as in content_state
  std::string after;             ///< as in set_sources
  MILLRACE_FIELDS(chain_hop, node, from, bytes, chunks, missing, rate, trouble,
                  after)
};

/// Hosts that get one content, each from the one before it.
struct chain_status {
  std::string content;
  std::string model;
  uint64_t version = 0;
  std::vector<std::string> sources;
  std::vector<chain_hop> hops;
  MILLRACE_FIELDS(chain_status, content, model, version, sources, hops)
};

/// Who has all of a content: hosts, and object stores.
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

/// What does an object store have? To a controller's watch of it.
struct get_store {
  MILLRACE_FIELDS(get_store)
};

struct store_status {
  std::string url;
  uint64_t models = 0;
  uint64_t bytes = 0;        ///< of their weights
  microseconds read_ago{-1}; ///< since that was read; -1: it never could be
  std::string error;         ///< why it could not be read the last time
  MILLRACE_FIELDS(store_status, url, models, bytes, read_ago, error)
};

/// What does a host keep? To its cache.
struct get_cache {
  MILLRACE_FIELDS(get_cache)
};

/// Where a host has a bundle, or that it gets it.
enum class cache_place : uint8_t {
  disk, ///< where people put it
  arriving,
  memory,
  kept,  ///< on the disk, after it came from another host
  broken ///< where people put it, and used no more
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
  uint64_t there = 0;   ///< bytes that are verified
  uint64_t users = 0;   ///< replicas here
  microseconds idle{0}; ///< since it was used last
  bool last = false;    ///< as in pinned_contents: it stays
  MILLRACE_FIELDS(cached_bundle, model, version, content, state, bytes, there,
                  users, idle, last)
};

struct cache_status {
  uint64_t held = 0;     ///< bytes of memory
  uint64_t capacity = 0; ///< 0: not limited
  std::vector<cached_bundle> bundles;
  uint64_t disk_held = 0;     ///< bytes of what is kept
  uint64_t disk_capacity = 0; ///< 0: nothing is
  MILLRACE_FIELDS(cache_status, held, capacity, bundles, disk_held,
                  disk_capacity)
};

} // namespace millrace
