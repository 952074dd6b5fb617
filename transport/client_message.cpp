// SPDX-License-Identifier: Apache-2.0
#include "transport/client_message.hpp"

#include <algorithm>

#include "runtime/name.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "transport/access.hpp"
#include "transport/bus.hpp"
#include "transport/message_types.hpp"

namespace millrace {

request_group::~request_group() {
  if (via == nullptr)
    return;
  try {
    for (auto& x : requests) {
      if (x.taken)
        continue;
      infer_reply y;
      y.status = ec::unavailable;
      y.error = "the gateway is not in service";
      via->answer(from, x.tag, std::move(y));
    }
  } catch (const std::bad_alloc&) {
    // The client gets no answer, as after the loss of the gateway.
  }
}

namespace {

/// Fixed cost of a message in the frame's budget: its place in a list or its
/// message to the gateway; the list of a group; the text of a refusal.
constexpr size_t cost_of_message = 320;
constexpr size_t cost_of_group = 1024;
constexpr size_t cost_of_refusal = 512;

class client_frame_decoder {
public:
  client_frame_decoder(bus* net, const session& from, const_bytes first,
                       std::span<const shared_bytes> raw, timestamp now)
    : net_(net),
      from_(from),
      in_(first, raw, now),
      raw_is_too_large_(std::any_of(raw.begin(), raw.end(), [](auto& x) {
        return x.size() > wire_limits::message_bytes;
      })) {}

  client_frame run() {
    do // an empty frame is refused: it has no header
      take_next();
    while (!in_.at_end() && !stopped_);
    return std::move(out_);
  }

private:
  /// Whether the frame has other messages.
  bool grouped() const { return out_.messages > 1 || !in_.at_end(); }

  /// False when the frame's budget is used up; the rest of the frame is
  /// ignored.
  bool afford(size_t bytes) {
    stopped_ = stopped_ || !in_.spend(bytes);
    return !stopped_;
  }

  void take_next() {
    if (auto done = in_.next(); !done) {
      excused_ = in_.head().v != 0; // another protocol version
      return refuse(in_.head().id, done.failure());
    }
    auto id = in_.head().id;
    ++out_.messages;
    auto done = take();
    if (done)
      return;
    refuse(id, done.failure());
    afford(cost_of_refusal);
  }

  void refuse(uint64_t id, const error& why) {
    auto offence = why.code == ec::bad_request || why.code == ec::forbidden;
    out_.refused.push_back({{id, grouped()}, why, offence && !excused_});
  }

  result<void> take() {
    if (out_.messages > wire_limits::grouped) {
      stopped_ = true;
      return error{ec::too_large, "a frame has at most 64 messages", {}};
    }
    if (!afford(cost_of_message))
      return over_budget();
    auto type = in_.head().t;
    // A type of a later version, perhaps: refused, but no offence.
    excused_ = find_message_type(type) == nullptr;
    if (raw_is_too_large_) {
      in_.skip();
      return over_raw_limit();
    }
    if (!may_say(role::client, type)) {
      in_.skip();
      return error{ec::forbidden, "clients may not say " + shown(type), {}};
    }
    if (type == infer::record_name())
      return take_request();
    open_group_ = nullptr;
    if (type == cancel::record_name())
      return take_cancel();
    return take_question();
  }

  result<void> take_request() {
    auto group = open_group_;
    if (!group) {
      if (!afford(cost_of_group))
        return over_budget();
      group = std::make_shared<request_group>(net_, from_);
    }
    // Decoded in place: moving a request costs many small moves.
    auto& x = group->requests.emplace_back();
    x.tag.id = in_.head().id; // id for the answer, even after an error
    if (auto done = in_.read(x.request); !done) {
      group->requests.pop_back();
      return done;
    }
    auto head = in_.take_head();
    if (auto plain = check_plain("trace id", head.trace); !plain) {
      excused_ = true; // a client's users may choose trace ids
      group->requests.pop_back();
      return plain;
    }
    x.tag.grouped = grouped();
    x.due = head.left;
    x.priority = head.prio;
    x.trace = std::move(head.trace);
    if (open_group_)
      return {};
    out_.accepted.push_back(caf::make_message(client_requests{group}));
    open_group_ = std::move(group);
    return {};
  }

  /// A cancel has no answer, so errors in its body are ignored.
  result<void> take_cancel() {
    in_.skip();
    out_.accepted.push_back(
      caf::make_message(client_cancel{from_, in_.head().id}));
    return {};
  }

  result<void> take_question() {
    describe_models what;
    if (auto done = in_.read(what); !done)
      return done;
    out_.accepted.push_back(caf::make_message(client_describe{
      from_, {in_.head().id, grouped()}, std::move(what.model)}));
    return {};
  }

  static error over_raw_limit() {
    return {ec::too_large,
            "the message has a raw frame of more than "
              + format_bytes(wire_limits::message_bytes),
            {}};
  }

  static error over_budget() {
    return {ec::too_large, "the frame has too many messages for its size", {}};
  }

  bus* net_;
  const session& from_;
  frame_reader in_;
  client_frame out_;
  std::shared_ptr<request_group> open_group_; ///< group for the next request
  bool stopped_ = false; ///< the rest of the frame is ignored
  bool excused_ = false; ///< the current message is no offence
  bool raw_is_too_large_;
};

} // namespace

client_frame decode_client_frame(bus* net, const session& from,
                                 const_bytes first,
                                 std::span<const shared_bytes> raw,
                                 timestamp now) {
  return client_frame_decoder{net, from, first, raw, now}.run();
}

} // namespace millrace
