// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>

#include "transport/messages/cluster.hpp"

namespace millrace {

/// How a node is, for probes that must not wait for an actor. Any thread.
class health {
public:
  void set(node_condition state, std::string reason) {
    std::lock_guard guard{mutex_};
    state_ = state;
    reason_ = std::move(reason);
  }
  std::pair<node_condition, std::string> get() const {
    std::lock_guard guard{mutex_};
    return {state_, reason_};
  }

private:
  mutable std::mutex mutex_;
  node_condition state_ = node_condition::starting;
  std::string reason_;
};

} // namespace millrace
