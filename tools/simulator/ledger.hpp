// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>

#include "simulator/model.hpp"
#include "simulator/watcher.hpp"

namespace millrace::simulator {

/// What is known of each request of a run: kept once, for all who check. Has to
/// see each event before they do.
class ledger : public watcher {
public:
  struct entry {
    sent_request sent;
    size_t answers = 0;
    bool cut_short = false; ///< its connection broke first
    ec status = ec::unavailable;
    std::string text;
    size_t given = 0;       ///< how often a device got it
    size_t given_after = 0; ///< and that after it was settled
  };

  /// Null when nobody sent it.
  const entry* find(uint64_t id) const {
    auto i = requests_.find(id);
    return i == requests_.end() ? nullptr : &i->second;
  }
  const std::map<uint64_t, entry>& requests() const { return requests_; }

  /// Requests that a gateway got before a point in time and has not answered.
  size_t open_at(const std::string& gateway, timestamp before) const {
    auto i = open_.find(gateway);
    if (i == open_.end())
      return 0;
    return static_cast<size_t>(
      std::distance(i->second.begin(), i->second.lower_bound({before, 0})));
  }

  void on_sent(const sent_request& x) override {
    requests_[x.id].sent = x;
    open_[x.gateway].insert({x.when, x.id});
  }
  void on_reply(const session&, uint64_t id, const infer_reply& x,
                timestamp) override {
    auto i = requests_.find(id);
    if (i == requests_.end())
      return;
    ++i->second.answers;
    i->second.status = x.status;
    i->second.text = x.error;
    close(i->second);
  }
  void on_cut_short(uint64_t id, timestamp) override {
    auto& x = requests_.at(id);
    x.cut_short = true;
    close(x);
  }
  void on_given(const executed_batch& x, timestamp) override {
    for (auto& item : x.items) {
      auto i = requests_.find(request_of(item));
      if (i == requests_.end())
        continue;
      ++i->second.given;
      i->second.given_after += i->second.answers > 0;
    }
  }

private:
  void close(const entry& x) {
    open_[x.sent.gateway].erase({x.sent.when, x.sent.id});
  }

  std::map<uint64_t, entry> requests_;
  std::map<std::string, std::set<std::pair<timestamp, uint64_t>>> open_;
};

} // namespace millrace::simulator
