// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "transport/wire.hpp"

namespace millrace {

/// A frame that has not been sent, and the requests in it.
struct unsent_frame {
  std::vector<uint64_t> ids; ///< empty: a cancel
  wire_frames content;
};

/// Frames that wait for the connection or for room in the send buffer, oldest
/// first.
class unsent_frames {
public:
  /// Limit for waiting requests; further requests are not sent.
  static constexpr size_t requests_max = 100'000;

  bool empty() const { return frames_.empty(); }

  /// False, and the frame is dropped, over the limit.
  bool push(unsent_frame frame);

  /// Takes the oldest frame.
  unsent_frame pop();

  /// Puts a frame returned by pop() back as the oldest.
  void put_back(unsent_frame frame);

  void clear();

private:
  std::deque<unsent_frame> frames_;
  size_t requests_ = 0;
};

/// The messages of a frame with the time left at `now` in their headers.
/// `due_of` gives the deadline of an open request. Messages of other requests
/// are left out: those have been settled while the frame waited. Raw frames
/// keep their numbers.
wire_frames
with_time_left(const wire_frames& frames, timestamp now,
               const std::function<std::optional<timestamp>(uint64_t)>& due_of);

} // namespace millrace
