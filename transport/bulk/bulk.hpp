// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Problem: bundles are too large for messages between actors, and many hosts
/// need the same one at the same time.
///
/// Approach: a content is split into a head and chunks, each verified by its
/// hash. A host serves the chunks that it has while it still fetches others, so
/// that hosts form a chain.
///
/// Callers: the relay calls bulk_port, from any thread. Its implementations run
/// a bulk_engine, zmq_bulk on a thread of its own, simulated_bulk in the node's
/// process. engine.hpp has the states. All callbacks come from there.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/chunks.hpp"
#include "transport/messages/bulk.hpp"

namespace millrace {

/// A transferable content: a head, and a file of chunks that are present or
/// will arrive. Any thread.
class bulk_content {
public:
  virtual ~bulk_content() = default;

  /// Pieces of the head, present from the start.
  virtual std::vector<shared_bytes> head() const = 0;

  virtual size_t chunks() const = 0;
  virtual bool has(size_t chunk) const = 0;

  /// Reads a chunk that is present. Errors: bad_config if it has changed on
  /// disk; the content must not be served any longer then.
  virtual result<shared_bytes> chunk(size_t chunk) = 0;

  /// Stores a received chunk. Errors: bad_config if its hash is wrong.
  virtual result<void> put(size_t chunk, const shared_bytes& content) = 0;

  /// Calls back when the chunk is present, or can never arrive.
  virtual void when(size_t chunk,
                    std::function<void(const result<void>&)> then) = 0;
};

/// A source of a content: a host that has a part of it or is fetching it, or an
/// object store.
struct bulk_source {
  std::string node;
  std::string address; ///< of its bulk endpoint
  std::string token;   ///< that the source accepts for this content
  /// Chunks that it has or will have; empty: all.
  std::vector<chunk_range> only;
  friend bool operator==(const bulk_source&, const bulk_source&) = default;
};

/// A content to fetch to this host.
struct bulk_order {
  std::string content;
  transfer_rank rank = transfer_rank::start;
  /// The part that this host already has; null: none.
  std::shared_ptr<bulk_content> known;
  /// With `known` null: makes the content from its head. Errors: bad_config if
  /// the head does not match.
  std::function<result<std::shared_ptr<bulk_content>>(
    const std::vector<shared_bytes>& head)>
    begin;
  /// The chunks to fetch, in the order of need.
  std::function<std::vector<chunk_range>(const bulk_content&)> wanted;
  /// Progress: the number of missing chunks. Called now and then, and once with
  /// 0.
  std::function<void(size_t missing)> got;
  /// A source is lost for this content; the owner must name another.
  std::function<void(const std::string& node, const error& why)> lost;
};

/// Transfers contents that are too large for messages between hosts. Any
/// thread; calls back on a thread of its own.
class bulk_port {
public:
  virtual ~bulk_port() = default;

  /// Address for other hosts; empty before the endpoint is open.
  virtual std::string address() const = 0;

  /// Serves a content to every host that presents the token: chunks that are
  /// present, and later ones when they arrive. Null: the content is announced
  /// but not known yet, and requests wait for it.
  virtual void offer(const std::string& content, const std::string& token,
                     std::shared_ptr<bulk_content> body) = 0;
  virtual void withdraw(const std::string& content) = 0;

  /// Fetches a content from the sources named by pull_from.
  virtual void pull(bulk_order order) = 0;
  virtual void pull_from(const std::string& content,
                         std::vector<bulk_source> sources) = 0;
  virtual void stop(const std::string& content) = 0;

  /// Ends all offers and pulls.
  virtual void clear() = 0;

  /// A node is gone: ends all transfers with it.
  virtual void forget(const std::string& node) = 0;
};

} // namespace millrace
