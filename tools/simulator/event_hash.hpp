// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// A hash of all events of a run: equal for two runs of one seed (I30).
class event_hash : public watcher {
public:
  uint64_t value() const { return hash_; }
  uint64_t events() const { return events_; }

  void on_sent(const sent_request& request) override;
  void on_reply(const session& to, uint64_t id, const infer_reply& reply,
                timestamp when) override;
  void on_cut_short(uint64_t id, timestamp when) override;
  void on_executed(const executed_batch& batch) override;
  void on_delivered(const member& from, const member& to, const header& what,
                    timestamp when) override;
  void on_log(log_level level, std::string_view line, timestamp when) override;

private:
  void add(std::string_view text);
  void add(int64_t number);
  void add(timestamp time) { add(time.time_since_epoch().count()); }

  uint64_t hash_ = 0xcbf29ce484222325;
  uint64_t events_ = 0;
};

} // namespace millrace::simulator
