// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// What is known of each request of a run: kept once, for all who check. Has to
/// see each event before they do.
class ledger : public watcher {
public:
  struct entry {
    sent_request sent;
    std::optional<timestamp> read;      ///< by its gateway
    std::optional<timestamp> cancelled; ///< its gateway read that, in time
    std::optional<timestamp> settled;   ///< its gateway answered
    size_t posted = 0;      ///< how often to a replica that did not return it
    size_t given = 0;       ///< how often a device got it
    size_t answers = 0;     ///< that reached its client
    bool cut_short = false; ///< its connection broke first
    ec status = ec::unavailable;
    std::string text;

    bool open() const { return read && !settled && !cut_short; }
  };

  /// Null when nobody sent it.
  const entry* find(uint64_t id) const;
  const std::map<uint64_t, entry>& requests() const { return requests_; }

  /// Requests that a gateway read before a point in time and has not answered.
  size_t held(const std::string& gateway, timestamp before) const;
  uint64_t held_bytes(const std::string& gateway, timestamp before) const;
  /// And of those of a model, those that no replica got yet.
  size_t waiting(const std::string& gateway, const std::string& model,
                 timestamp before) const;

  void on_sent(const sent_request& x) override;
  void on_read(const member& gateway, uint64_t id, timestamp when) override;
  void on_cancel_read(const member& gateway, uint64_t id,
                      timestamp when) override;
  void on_answered(const member& gateway, uint64_t id, const infer_reply& x,
                   timestamp when) override;
  void on_reply(const session& to, uint64_t id, const infer_reply& x,
                timestamp when) override;
  void on_cut_short(uint64_t id, timestamp when) override;
  void on_posted(const member& from, const member& to, const wire_message& what,
                 timestamp when) override;
  void on_given(const given_batch& x, timestamp when) override;
  void on_returned(const given_batch& x, timestamp when) override;

  /// The requests in what was posted last, if that was a batch.
  const std::vector<uint64_t>& batch() const { return batch_; }
  /// And its number, if it passes through parts of its model; else 0.
  uint64_t number() const { return number_; }

private:
  /// Requests by when they were read.
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

  /// A batch, by the address of its router and its number there.
  using batch_name = std::pair<std::string, uint64_t>;

  entry* known(uint64_t id);
  void note_posted(const batch_name& name);
  void note_done(const batch_name& name, ec status);
  void close(uint64_t id, const entry& x);

  std::map<uint64_t, entry> requests_;
  std::vector<uint64_t> batch_;
  uint64_t number_ = 0;
  std::map<batch_name, std::vector<uint64_t>> batches_; ///< not done yet
  std::map<std::string, reading_list> held_;            ///< by gateway
  /// By gateway and model.
  std::map<std::pair<std::string, std::string>, reading_list> waiting_;
};

} // namespace millrace::simulator
