// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include "runtime/time.hpp"

namespace millrace {

/// Decides when a connection is dead although TCP reports no error.
///
/// A host between client and gateway (NAT, load balancer) may forget a
/// connection and still acknowledge its bytes: TCP keepalive then finds
/// nothing. But a gateway answers each request by its deadline. So a connection
/// is dead when a request on it has timed out and no message arrived for
/// `silence_max` since that request was sent. A connection that carries answers
/// to other requests is kept. One watch per connection.
class silence_watch {
public:
  static constexpr auto silence_max = 1s;

  void on_message(timestamp now) {
    received_ = now;
    silent_since_.reset();
  }

  /// Call after the timeout of a request sent at `sent`. Returns whether the
  /// connection is dead.
  bool on_timeout(timestamp sent, timestamp now) {
    auto since = std::max(sent, received_);
    if (!silent_since_ || since < *silent_since_)
      silent_since_ = since;
    return now - *silent_since_ >= silence_max;
  }

private:
  timestamp received_;                    ///< arrival of the last message
  std::optional<timestamp> silent_since_; ///< begin of the silence
};

} // namespace millrace
