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
  /// Requests that may wait; further ones are not sent.
  static constexpr size_t requests_max = 100'000;

  bool empty() const { return frames_.empty(); }

  /// False when there are too many already: the frame is dropped.
  bool push(unsent_frame x);

  /// Takes the oldest frame.
  unsent_frame pop();

  /// Makes a frame that was taken the oldest again.
  void put_back(unsent_frame x);

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
with_time_left(const wire_frames& x, timestamp now,
               const std::function<std::optional<timestamp>(uint64_t)>& due_of);

} // namespace millrace
