// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// The state of each request of a run, shared by all invariants. Must receive
/// each event before the invariants do.
class ledger : public watcher {
public:
  struct entry {
    sent_request sent;
    std::optional<timestamp> read;      ///< when the gateway read the request
    std::optional<timestamp> cancelled; ///< when the gateway read the cancel
                                        ///< message, if before the answer
    std::optional<timestamp> settled;   ///< when the gateway answered
    size_t posted = 0;      ///< times given to a replica that did not return
                            ///< the request
    size_t given = 0;       ///< times given to a device
    size_t answers = 0;     ///< answers that reached the client
    bool cut_short = false; ///< the connection broke before an answer
    ec status = ec::unavailable;
    std::string text;

    bool open() const { return read && !settled && !cut_short; }
  };

  /// Null if no client sent that request.
  const entry* find(uint64_t id) const;
  const std::map<uint64_t, entry>& requests() const { return requests_; }

  /// Number of unanswered requests that a gateway read before `before`.
  size_t held(const std::string& gateway, timestamp before) const;
  uint64_t held_bytes(const std::string& gateway, timestamp before) const;
  /// Number of held requests of a model that no replica has received.
  size_t waiting(const std::string& gateway, const std::string& model,
                 timestamp before) const;

  void on_sent(const sent_request& request) override;
  void on_read(const member& gateway, uint64_t id, timestamp when) override;
  void on_cancel_read(const member& gateway, uint64_t id,
                      timestamp when) override;
  void on_answered(const member& gateway, uint64_t id, const infer_reply& reply,
                   timestamp when) override;
  void on_reply(const session& to, uint64_t id, const infer_reply& reply,
                timestamp when) override;
  void on_cut_short(uint64_t id, timestamp when) override;
  void on_posted(const member& from, const member& to, const wire_message& what,
                 timestamp when) override;
  void on_given(const given_batch& batch, timestamp when) override;
  void on_returned(const given_batch& batch, timestamp when) override;

  /// The requests in the last posted message, if that was a batch.
  const std::vector<uint64_t>& batch() const { return batch_; }
  /// The batch's number, if the batch passes through stages; else 0.
  uint64_t number() const { return number_; }

private:
  /// Requests sorted by the time their gateway read them.
  class reading_list {
  public:
    void add(timestamp read, uint64_t id, uint64_t bytes);
    void remove(timestamp read, uint64_t id);
    size_t count_before(timestamp when) const;
    uint64_t bytes_before(timestamp when) const;

  private:
    std::map<std::pair<timestamp, uint64_t>, uint64_t> bytes_;
    uint64_t sum_ = 0;
  };

  /// A batch: the address of its router, and its number at that router.
  using batch_name = std::pair<std::string, uint64_t>;

  entry* known(uint64_t id);
  void note_posted(const batch_name& name);
  void note_done(const batch_name& name, ec status);
  void close(uint64_t id, const entry& request);

  std::map<uint64_t, entry> requests_;
  std::vector<uint64_t> batch_;
  uint64_t number_ = 0;
  std::map<batch_name, std::vector<uint64_t>> batches_; ///< not finished yet
  std::map<std::string, reading_list> held_;            ///< by gateway
  /// By gateway and model.
  std::map<std::pair<std::string, std::string>, reading_list> waiting_;
};

} // namespace millrace::simulator
