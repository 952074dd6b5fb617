// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <unordered_set>

#include "client/connection.hpp"
#include "runtime/deadline_queue.hpp"
#include "transport/messages/infer.hpp"
#include "transport/wire.hpp"

namespace millrace {

/// Submits requests to a gateway. Each submitted request comes back exactly
/// once from receive(): as the gateway's answer, or as unavailable when the
/// connection was lost meanwhile (the request may have been executed) or none
/// came by the deadline and a little more. A lost connection is made again by
/// itself. For one thread.
class client {
public:
  /// Connects, with the key in that file where the cluster has keys.
  /// Errors: as connection::open.
  static result<client> connect(const std::string& address,
                                microseconds longest = 5s,
                                const std::string& key = {});

  /// One request and its answer.
  infer_reply infer_one(const infer& x, microseconds deadline = 30s,
                        std::string trace = {});

  /// Sends a request and returns its id. One that no gateway would take is
  /// not sent: too_large comes back from receive(). What has a trace, a name of
  /// up to 64 bytes, the gateway remembers for a while: see actor-shell
  /// explain.
  uint64_t submit(const infer& x, microseconds deadline = 30s,
                  int32_t priority = 0, std::string trace = {});

  /// Requests that are submitted while it lives travel together: when it goes,
  /// when receive(), cancel() or models() is called, or when the frame is full.
  /// Their answers may share frames too. For many small requests at a time: a
  /// frame costs as much as a request. Large ones still go alone and at once.
  /// Not for waiting: a request's deadline runs from submit(), and the gateway
  /// hears of it later. The client must not be moved meanwhile.
  class group {
  public:
    explicit group(client& x) : client_(x) { ++client_.grouping_; }
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

  /// The next answer to any submitted request; nothing when none came in time.
  std::optional<answer> receive(microseconds longest);

  /// Asks the gateway to stop; the answer, cancelled or not, still comes.
  void cancel(uint64_t id);

  /// What can be asked for. Errors: unavailable.
  result<std::vector<model_info>> models(microseconds longest = 5s);

  size_t outstanding() const { return outstanding_.size(); }

private:
  explicit client(std::unique_ptr<connection> x) : link_(std::move(x)) {}

  template <class T>
  result<void> send(const T& x, uint64_t id);
  result<void> send(frame_writer& x);
  void flush();
  void fail(uint64_t id, const error& why);
  bool settle_lost();
  void take(const wire_frames& x, timestamp now);

  std::unique_ptr<connection> link_;
  size_t grouping_ = 0; ///< groups that live
  frame_writer grouped_;
  std::vector<uint64_t> grouped_ids_;
  std::unordered_set<uint64_t> outstanding_;
  deadline_queue<uint64_t> deadlines_;
  std::deque<answer> ready_; ///< settled here, not yet taken
  uint64_t last_ = 0;
  uint64_t described_ = 0; ///< the last question for models
  std::optional<result<std::vector<model_info>>> models_; ///< its answer
};

} // namespace millrace
