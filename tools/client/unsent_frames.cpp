// SPDX-License-Identifier: Apache-2.0
#include "client/unsent_frames.hpp"

#include <string>
#include <utility>

namespace millrace {

bool unsent_frames::push(unsent_frame frame) {
  if (requests_ + frame.ids.size() > requests_max)
    return false;
  requests_ += frame.ids.size();
  frames_.push_back(std::move(frame));
  return true;
}

unsent_frame unsent_frames::pop() {
  auto out = std::move(frames_.front());
  frames_.pop_front();
  requests_ -= out.ids.size();
  return out;
}

void unsent_frames::put_back(unsent_frame frame) {
  requests_ += frame.ids.size();
  frames_.push_front(std::move(frame));
}

void unsent_frames::clear() {
  frames_.clear();
  requests_ = 0;
}

wire_frames with_time_left(
  const wire_frames& frames, timestamp now,
  const std::function<std::optional<timestamp>(uint64_t)>& due_of) {
  std::string first;
  for (auto rest = frames.first.view(); !rest.empty();) {
    auto message = open_frame(rest, now);
    auto size = message ? size_of_value(message->body) : std::nullopt;
    if (!size)
      break; // impossible: this client wrote the frame
    auto body = message->body.first(*size);
    rest = message->body.subspan(*size);
    auto due = due_of(message->head.id);
    if (!due)
      continue;
    if (message->head.left.at != far_future)
      message->head.left.at = *due;
    first += encode_header(message->head, now).text();
    first.append(reinterpret_cast<const char*>(body.data()), body.size());
  }
  return {shared_bytes::copy_of(first), frames.raw};
}

} // namespace millrace
