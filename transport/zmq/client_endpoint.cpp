// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/client_endpoint.hpp"

#include "runtime/units.hpp"
#include "transport/client_message.hpp"

namespace millrace::zeromq {

namespace {

constexpr size_t small_answer = 64u << 10, room_for_small = 1u << 20;

/// Retry time for a client with too many unread answers.
constexpr microseconds soon = 100ms;

} // namespace

void client_endpoint::take_in(timestamp now) {
  take_messages(socket_, said_, counts_, [this](frame_list& frames) {
    batch_.push_back(std::move(frames));
  });
  // A connection that ended did so before later messages of a new connection
  // with the same name.
  if (std::exchange(left_, false) || !batch_.empty())
    connections_.look(now);
  tell_who_left();
  for (auto& frames : batch_)
    counts_.take_in([&] { on_frames(frames, now); });
  batch_.clear();
  tell_who_left(); // the messages above were the last of these connections
  if (!said_)
    connections_.end_silent(now);
}

void client_endpoint::on_frames(frame_list& frames, timestamp now) {
  auto* who = authenticator_.speaker(whose_, frames[1], now);
  if (who == nullptr)
    return;
  session from{number_, frames[0].to_string()};
  connections_.saw(from.connection, frames[1], now);
  auto raw = take_raw(frames, 2);
  if (!raw) {
    counts_.received(1, 0);
    frame_reader first{view(frames[1]), {}, now};
    auto id = first.next() ? first.head().id : 0;
    return refuse(from, {id, false}, raw.failure());
  }
  auto x = decode_client_frame(&net_, from, view(frames[1]), *raw, now);
  auto messages = std::max<size_t>(1, x.messages);
  counts_.received(messages, frames[1].size() + total_bytes(*raw));
  for (auto& [tag, why, offence] : x.refused) {
    refuse(from, tag, why);
    if (offence)
      authenticator_.offence(*who, why.text, now);
  }
  for (auto& content : x.accepted)
    hand_on(from, std::move(content));
}

void client_endpoint::tell_who_left() {
  for (auto& connection : connections_.take_left())
    if (gateway_)
      gateway_->enqueue(nullptr, caf::message_id{},
                        caf::make_message(client_left{{number_, connection}}),
                        &host_);
}

void client_endpoint::hand_on(const session& from, caf::message content) {
  if (gateway_)
    gateway_->enqueue(nullptr, caf::message_id{}, std::move(content), &host_);
  else if (content.match_elements<client_describe>())
    refuse(from, content.get_as<client_describe>(0).tag,
           {ec::unavailable, "the gateway is not in service", {}});
  // The request group answers the requests in this message.
}

std::optional<error> client_endpoint::refusal_of(const std::string& connection,
                                                 const infer_reply& reply) {
  size_t bytes = 0;
  for (auto& y : reply.outputs)
    bytes += y.value.data.size();
  if (bytes > wire_limits::message_bytes
      || reply.outputs.size() > wire_limits::attachments)
    return error{ec::too_large,
                 "the answer has " + std::to_string(reply.outputs.size())
                   + " tensors of " + format_bytes(bytes)
                   + " together (at most "
                   + std::to_string(wire_limits::attachments) + ", "
                   + format_bytes(wire_limits::message_bytes) + ")",
                 {}};
  if (bytes <= small_answer)
    return std::nullopt;
  // Answers that wait in a group are sent first, to count them.
  if (auto open = open_.find(connection);
      open != open_.end() && open->second.messages() > 0)
    send(connection, open->second);
  if (unread_.has_room(connection, bytes, most_unread_))
    return std::nullopt;
  counts_.dropped("client_does_not_read");
  return error{ec::overloaded,
               "the answer of " + format_bytes(bytes)
                 + " cannot be kept: the client has not read earlier answers"
                   " (gateway.max_client_unread_bytes is "
                 + format_bytes(most_unread_.each)
                 + ", gateway.max_unread_bytes "
                 + format_bytes(most_unread_.all) + ")",
               soon};
}

void client_endpoint::answer(const session& to, client_tag tag,
                             const infer_reply& reply) {
  auto why = refusal_of(to.connection, reply);
  if (!why)
    return answer<infer_reply>(to, tag, reply);
  auto without = reply;
  without.status = why->code;
  without.error = std::move(why->text);
  without.retry_after = why->retry_after;
  without.outputs.clear();
  answer<infer_reply>(to, tag, without);
}

void client_endpoint::flush() {
  for (auto& [connection, x] : open_)
    if (x.messages() > 0)
      send(connection, x);
  open_.clear();
}

/// A small answer has room beyond the limit of larger ones, so that each
/// request gets an answer.
loan_limits client_endpoint::limits_of(size_t bytes) const {
  auto out = most_unread_;
  if (bytes <= small_answer) {
    out.each += room_for_small;
    out.all += out.all / 8;
  }
  return out;
}

void client_endpoint::send(const std::string& connection,
                           frame_writer& frames) {
  auto messages = frames.messages();
  auto out = frames.take();
  auto bytes = out.bytes();
  loan_terms terms;
  if (!is_copied(out) || !unread_.may_copy(connection, bytes)) {
    terms = unread_.open(connection, bytes, limits_of(bytes));
    if (!terms.account)
      return counts_.dropped("client_does_not_read", messages);
  }
  said_ = true;
  if (!zeromq::send(socket_, connection, out, terms))
    return counts_.dropped("receiver_gone_or_slow", messages);
  counts_.sent(messages, bytes);
}

void client_endpoint::refuse(const session& to, client_tag tag,
                             const error& why) {
  counts_.dropped("refused");
  infer_reply x;
  x.status = why.code;
  x.error = why.text;
  answer(to, tag, x);
}

} // namespace millrace::zeromq
