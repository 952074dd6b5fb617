// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>

namespace millrace {

/// Limits of one message on any socket.
struct wire_limits {
  static constexpr size_t header_bytes = 4096;
  static constexpr size_t attachments = 4096; ///< one per tensor
  static constexpr size_t message_bytes = 256u << 20;
  /// Fraction of a message that a batch of several requests may fill between
  /// nodes. Heartbeats of a link wait behind each message.
  static constexpr double batch_share = 0.25;
  /// Messages in one first frame, between clients and gateways.
  static constexpr size_t grouped = 64;
};

/// Bytes and tensors of the requests or outputs of a batch.
struct batch_extent {
  size_t bytes = 0;
  size_t tensors = 0;

  void add(const batch_extent& other) {
    bytes += other.bytes;
    tensors += other.tensors;
  }

  /// Size relative to the limit of one message between nodes; above 1: too
  /// large.
  double share_of_message() const {
    return std::max(static_cast<double>(bytes) / wire_limits::message_bytes,
                    static_cast<double>(tensors) / wire_limits::attachments);
  }
};

} // namespace millrace
