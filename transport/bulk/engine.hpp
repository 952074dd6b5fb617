// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Problem: hosts fetch bundles from hosts that may still be fetching them,
/// over a carrier that loses connections. A slow or broken source must not stop
/// a transfer.
///
/// Approach: a serve_queue orders the chunks that this host sends, one
/// pull_queue per content the chunks that it requests. A source that sends a
/// wrong chunk, refuses or disconnects is dropped from the pull; the owner
/// names others.
///
/// Callers: one thread, that of the bulk port (zmq_bulk, or the process in
/// simulated_bulk). The port passes commands, received messages, lost
/// connections and ticks, and implements bulk_carrier. The relay calls the
/// port, see bulk.hpp.
///
/// States of a pull:
///
///     waiting ──pull_from──▶ head requested ──on_head──▶ chunks requested
///                               │    ▲                    │    ▲      │
///                               └────┘                    └────┘      ▼
///                             source lost              source lost   done
///
/// With `known` set a pull starts at "chunks requested". done: order.got(0) was
/// called; a further pull of the content returns to "chunks requested".

#include <map>
#include <optional>
#include <set>
#include <string>

#include "transport/bulk/bulk.hpp"
#include "transport/bulk/pull_queue.hpp"
#include "transport/bulk/serve_queue.hpp"

namespace millrace {

/// Connects an engine to other hosts: sockets, or the simulated network.
class bulk_carrier {
public:
  virtual ~bulk_carrier() = default;

  /// Sends a request to a source, after connecting to it. A request that cannot
  /// be sent is lost with the connection: the engine then gets on_source_lost.
  virtual void ask(const bulk_source& whom, const bulk_ask& request) = 0;
  /// Chunks requested from the source at a time.
  virtual size_t window_of(const std::string& node) const = 0;
  /// The engine has no further requests for the node.
  virtual void leave(const std::string& node) = 0;

  /// Sends a chunk to the requesting link. The carrier calls on_left once it is
  /// sent.
  virtual void give(const std::string& link, const bulk_chunk& what,
                    shared_bytes content) = 0;
  virtual void give_head(const std::string& link, const bulk_head& what,
                         std::vector<shared_bytes> pieces) = 0;
  virtual void refuse(const std::string& link, const bulk_refusal& answer) = 0;

  /// Runs jobs on the engine's thread, later. Any thread; after the end of that
  /// thread the job is dropped.
  using poster = std::function<void(std::function<void()>)>;
  virtual poster to_thread() = 0;
};

/// Chunks requested from a host at a time: covers a link of 10 Gbit/s with 3 ms
/// delay, and bounds the bytes to resend after the loss of a host.
inline constexpr size_t window_of_host = 4;

/// Transfers of one host, independent of the carrier. For one thread.
class bulk_engine {
public:
  bulk_engine(bulk_carrier& carrier, serve_queue::limits limits)
    : carrier_(carrier),
      serving_(limits) {}

  //  -- commands, as in bulk_port
  //  ------------------------------------------------

  void offer(const std::string& content, const std::string& token,
             std::shared_ptr<bulk_content> body, timestamp now);
  void withdraw(const std::string& content);
  void pull(bulk_order order);
  void pull_from(const std::string& content, std::vector<bulk_source> sources);
  void stop(const std::string& content);
  void clear();

  //  -- events
  //  -------------------------------------------------------------------

  void on_ask(const std::string& link, const bulk_ask& request, timestamp now);
  /// A chunk has been sent.
  void on_left(const std::string& link, timestamp now);
  void on_link_lost(const std::string& link);

  void on_head(const std::string& node, const bulk_head& head,
               const std::vector<shared_bytes>& pieces);
  void on_chunk(const std::string& node, const bulk_chunk& chunk,
                const shared_bytes& content, timestamp now);
  void on_refusal(const std::string& node, const bulk_refusal& answer);
  void on_source_lost(const std::string& node, const error& why);

  // -- time -------------------------------------------------------------------

  timestamp next_due() const { return serving_.next_due(); }
  /// Call at next_due(), and after each posted job.
  void on_tick(timestamp now) { serve(now); }

private:
  struct offered {
    std::string token;
    std::shared_ptr<bulk_content> content; ///< null: not known yet
    /// Requests until then.
    std::vector<std::pair<std::string, bulk_ask>> asked{};
    std::set<size_t> awaited{}; ///< requested chunks that have not arrived
  };

  struct pulled {
    bulk_order order;
    std::shared_ptr<bulk_content> content; ///< null: the head is missing
    std::optional<pull_queue> queue;       ///< once the head is there
    std::map<std::string, bulk_source> sources;
    std::map<std::string, pull_queue::source_id> ids;
    std::string asked_for_head; ///< source of the head request
    timestamp told;             ///< time of the last progress report
  };

  void on_there(const serve_queue::chunk_id& what);
  void give_up(const std::string& content,
               const std::shared_ptr<bulk_content>& body);
  void hold(offered& offer, const std::string& link, const bulk_ask& request);
  void serve(timestamp now);
  void begin(pulled& download, std::shared_ptr<bulk_content> content);
  void want(pulled& download);
  void ask_more(pulled& download);
  void ask_for_head(pulled& download);
  void send_ask(const pulled& download, const bulk_source& to, bool head,
                uint64_t chunk);
  void lose(pulled& download, const std::string& node, const error& why);
  void leave_unused(const std::string& node);
  pulled* find_pull(const std::string& content);

  bulk_carrier& carrier_;
  serve_queue serving_;
  std::map<std::string, offered> offers_;
  std::map<std::string, pulled> pulls_;
  uint64_t last_source_ = 0;
};

} // namespace millrace
