// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "transport/messages/cluster.hpp"

namespace millrace {

/// The condition of a node, for probes that must not wait for an actor.
/// Thread-safe.
class health {
public:
  using told = std::function<void(node_condition, const std::string& reason)>;

  /// `tell` is called on every change.
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

  /// Sets a problem that needs an operator while the node works; an empty text
  /// clears the problem.
  void set_trouble(const std::string& with, std::string text) {
    std::lock_guard guard{mutex_};
    if (text.empty())
      troubles_.erase(with);
    else
      troubles_[with] = std::move(text);
  }
  std::vector<std::string> troubles() const {
    std::lock_guard guard{mutex_};
    std::vector<std::string> out;
    for (auto& [with, text] : troubles_)
      out.push_back(text);
    return out;
  }

private:
  told tell_;
  mutable std::mutex mutex_;
  node_condition state_ = node_condition::starting;
  std::string reason_;
  std::map<std::string, std::string> troubles_;
};

} // namespace millrace
