// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <unordered_map>

#include "client/connection.hpp"
#include "client/silence_watch.hpp"
#include "client/unsent_frames.hpp"
#include "runtime/deadline_queue.hpp"
#include "transport/messages/infer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Submits requests to a gateway. Each submitted request comes back exactly
/// once from receive(), as the gateway's answer or as unavailable:
/// - The connection was lost after the request was sent. The request may have
///   been executed.
/// - No answer came until shortly after the deadline.
/// - The request could not be sent by its deadline, because no gateway was
///   connected or the send buffer stayed full.
///
/// The client reconnects automatically, also when a connection is dead although
/// TCP reports no error (see silence_watch). For one thread.
/// although TCP reports no error (see silence_watch). For one thread.
class client {
public:
  /// Connects with the key in that file; empty for a cluster without keys.
  /// Errors: as connection::open.
  static result<client> connect(const std::string& address,
                                microseconds longest = 5s,
                                const std::string& key = {});

  /// Sends a request and waits for its answer.
  infer_reply infer_one(const infer& request, microseconds deadline = 30s,
                        std::string trace = {});

  /// Sends a request and returns its id. While the send buffer is full or no
  /// gateway is connected, the request waits in the client, and calls of
  /// submit() and receive() send it later. An invalid request is not sent:
  /// bad_request or too_large comes back from receive(). A request with a
  /// trace, a name of up to 64 bytes, is remembered by the gateway for a while:
  /// see actor-shell explain.
  uint64_t submit(const infer& request, microseconds deadline = 30s,
                  int32_t priority = 0, std::string trace = {});

  /// Collects submitted requests into shared frames during the group's
  /// lifetime. A frame is sent when the group is destroyed, when receive(),
  /// cancel() or models() is called, or when the frame is full. Answers may
  /// share frames, too. Useful for many small requests at a time, because a
  /// frame costs as much as a request; large requests are still sent alone and
  /// at once. Keep the lifetime short: a request's deadline runs from submit().
  /// The client must not be moved meanwhile.
  class group {
  public:
    explicit group(client& connection) : client_(connection) {
      ++client_.grouping_;
    }
    group(const group&) = delete;
    group& operator=(const group&) = delete;
    ~group() {
      if (--client_.grouping_ == 0)
        client_.flush();
    }

  private:
    client& client_;
  };

  struct answer {
    uint64_t id = 0;
    infer_reply reply;
  };

  /// The next answer to any submitted request; empty if none arrives in time.
  std::optional<answer> receive(microseconds longest);

  /// Asks the gateway to stop; the answer, cancelled or not, still comes. A
  /// request that was not sent yet is cancelled at once.
  void cancel(uint64_t id);

  /// The models that the gateway serves. Errors: unavailable.
  result<std::vector<model_info>> models(microseconds longest = 5s);

  /// Closes the connection. Open and later requests are unavailable.
  void close();

  size_t outstanding() const { return open_.size(); }

private:
  /// A request without an answer.
  struct open_request {
    timestamp due;                 ///< its deadline
    timestamp until;               ///< when the client stops waiting
    std::optional<timestamp> sent; ///< empty while the request waits for room
  };

  explicit client(std::unique_ptr<connection> link) : link_(std::move(link)) {}

  uint64_t open(timestamp due, microseconds patience);
  void send(frame_writer& frames, std::vector<uint64_t> ids);
  bool send_now(const wire_frames& frames, const std::vector<uint64_t>& ids);
  void send_waiting();
  void flush();
  void fail(uint64_t id, const error& why);
  void expire(uint64_t id, timestamp now);
  error not_sent() const;
  bool settle_lost();
  void take(const wire_frames& frames, timestamp now);
  void step(timestamp until);

  std::unique_ptr<connection> link_; ///< null: closed
  silence_watch silence_;
  size_t grouping_ = 0; ///< number of groups alive
  frame_writer grouped_;
  std::vector<uint64_t> grouped_ids_;
  unsent_frames unsent_;
  std::unordered_map<uint64_t, open_request> open_; ///< by id
  deadline_queue<uint64_t> deadlines_;
  std::deque<answer> ready_; ///< answers not yet returned by receive()
  uint64_t last_ = 0;
  uint64_t described_ = 0; ///< id of the last request for the list of models
  /// the answer to that request
  std::optional<result<std::vector<model_info>>> models_;
};

} // namespace millrace
