// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "transport/bulk/bulk.hpp"
#include "transport/bulk/pull_queue.hpp"
#include "transport/bulk/serve_queue.hpp"

namespace millrace {

/// How an engine reaches other hosts: sockets, or the simulated network.
class bulk_carrier {
public:
  virtual ~bulk_carrier() = default;

  /// To a source, which it connects with first; what cannot be sent is lost
  /// with the connection, of which the engine hears.
  virtual void ask(const bulk_source& whom, const bulk_ask& x) = 0;
  /// How many chunks it is asked for at a time.
  virtual size_t window_of(const std::string& node) const = 0;
  /// Nothing is asked there any more.
  virtual void leave(const std::string& node) = 0;

  /// To who has asked. The engine hears when a chunk has left.
  virtual void give(const std::string& link, const bulk_chunk& what,
                    shared_bytes content) = 0;
  virtual void give_head(const std::string& link, const bulk_head& what,
                         std::vector<shared_bytes> pieces) = 0;
  virtual void refuse(const std::string& link, const bulk_refusal& x) = 0;

  /// Has jobs run on the engine's thread, soon. Any thread may; when there is
  /// no such thread any more nothing happens.
  using poster = std::function<void(std::function<void()>)>;
  virtual poster to_thread() = 0;
};

/// Chunks that a host is asked for at a time: what its link's delay holds at
/// 10 Gbit/s and 3 ms, and what may have to be sent again should it die.
inline constexpr size_t window_of_host = 4;

/// What a host gives and gets, whatever carries it. For one thread.
class bulk_engine {
public:
  bulk_engine(bulk_carrier& carrier, serve_queue::limits limits)
    : carrier_(carrier),
      serving_(limits) {}

  // -- commands, as bulk_port has them ----------------------------------------

  void offer(const std::string& content, const std::string& token,
             std::shared_ptr<bulk_content> x, timestamp now);
  void withdraw(const std::string& content);
  void pull(bulk_order x);
  void pull_from(const std::string& content, std::vector<bulk_source> sources);
  void stop(const std::string& content);
  void clear();

  // -- what comes -------------------------------------------------------------

  void on_ask(const std::string& link, const bulk_ask& x, timestamp now);
  /// A chunk that was given is on its way out of here.
  void on_left(const std::string& link, timestamp now);
  void on_link_lost(const std::string& link);

  void on_head(const std::string& node, const bulk_head& x,
               const std::vector<shared_bytes>& pieces);
  void on_chunk(const std::string& node, const bulk_chunk& x,
                const shared_bytes& content, timestamp now);
  void on_refusal(const std::string& node, const bulk_refusal& x);
  void on_source_lost(const std::string& node, const error& why);

  // -- time -------------------------------------------------------------------

  timestamp next_due() const { return serving_.next_due(); }
  /// When that is due, and after each job that was posted.
  void on_tick(timestamp now) { serve(now); }

private:
  struct offered {
    std::string token;
    std::shared_ptr<bulk_content> content; ///< null: to be known
    std::vector<std::pair<std::string, bulk_ask>> asked{}; ///< until then
    std::set<size_t> awaited{}; ///< chunks, that somebody asked for
  };

  struct pulled {
    bulk_order order;
    std::shared_ptr<bulk_content> content; ///< null: the head is to come
    std::optional<pull_queue> queue;       ///< once that is there
    std::map<std::string, bulk_source> sources;
    std::map<std::string, pull_queue::source_id> ids;
    std::string asked_for_head; ///< of whom
    timestamp told;             ///< of its progress
  };

  void on_there(const serve_queue::chunk_id& what);
  void give_up(const std::string& content,
               const std::shared_ptr<bulk_content>& x);
  void hold(offered& offer, const std::string& link, const bulk_ask& x);
  void serve(timestamp now);
  void begin(pulled& x, std::shared_ptr<bulk_content> content);
  void want(pulled& x);
  void ask_more(pulled& x);
  void ask_for_head(pulled& x);
  void send_ask(const pulled& x, const bulk_source& to, bool head,
                uint64_t chunk);
  void lose(pulled& x, const std::string& node, const error& why);
  void leave_unused(const std::string& node);
  pulled* find_pull(const std::string& content);

  bulk_carrier& carrier_;
  serve_queue serving_;
  std::map<std::string, offered> offers_;
  std::map<std::string, pulled> pulls_;
  uint64_t last_source_ = 0;
};

} // namespace millrace
