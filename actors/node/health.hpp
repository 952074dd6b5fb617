// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "transport/messages/cluster.hpp"

namespace millrace {

/// How a node is, for probes that must not wait for an actor. Any thread.
class health {
public:
  using told = std::function<void(node_condition, const std::string& reason)>;

  /// `tell` hears of every change.
  explicit health(told tell = {}) : tell_(std::move(tell)) {}

  void set(node_condition state, std::string reason) {
    if (tell_)
      tell_(state, reason);
    std::lock_guard guard{mutex_};
    state_ = state;
    reason_ = std::move(reason);
  }
  std::pair<node_condition, std::string> get() const {
    std::lock_guard guard{mutex_};
    return {state_, reason_};
  }

private:
  told tell_;
  mutable std::mutex mutex_;
  node_condition state_ = node_condition::starting;
  std::string reason_;
};

} // namespace millrace
