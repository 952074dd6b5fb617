// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/operator_endpoint.hpp"

#include <algorithm>

#include "runtime/text.hpp"
#include "transport/access.hpp"
#include "transport/codec.hpp"

namespace millrace::zeromq {

namespace {

/// Bytes of an order in the audit log: fits two sets of a model's settings.
constexpr size_t order_longest = 2000;

/// Open orders with an outcome to note; beyond that the oldest is forgotten.
constexpr size_t orders_most = 256;

} // namespace

operator_endpoint::operator_endpoint(surroundings all, zmq::context_t& context,
                                     zmq::socket_t socket)
  : bus_(std::move(all)),
    socket_(context, std::move(socket)),
    sessions_(bus_.system, [this](auto& to, auto mid, auto& content) {
      answer(to, mid, content);
    }) {
}

/// From any thread.
void operator_endpoint::answer(const std::string& connection,
                               caf::message_id mid,
                               const caf::type_erased_tuple& content) {
  auto x = encode_content(content, bus_.board.now(), &bus_.board);
  if (!x)
    return;
  x->head.id = mid.request_id().integer_value();
  bus_.post([this, connection, x = std::move(*x)] {
    note_outcome(connection, x);
    if (!send(socket_.sending(), connection, x, bus_.board.now()))
      return bus_.counts.dropped("receiver_gone_or_slow");
    bus_.counts.sent(1, x.bytes());
  });
}

void operator_endpoint::take_in() {
  socket_.take(bus_.counts, bus_.board.now(), [this](frame_list& frames) {
    bus_.counts.take_in([&] { on_frames(frames); });
  });
}

void operator_endpoint::on_frames(frame_list& frames) {
  auto now = bus_.board.now();
  auto* who = bus_.who.speaker(whose_, frames[1], now);
  if (who == nullptr)
    return;
  auto connection = frames[0].to_string();
  auto x = to_wire(frames, 1, now);
  bus_.counts.received(1, x ? x->bytes() : 0);
  auto mid = caf::message_id{};
  auto refuse = [&](const error& why) {
    answer(connection, mid, caf::make_message(to_caf(why)));
  };
  if (!x) {
    bus_.counts.dropped("undecodable");
    bus_.who.offence(*who, x.failure().text, now);
    return refuse(x.failure());
  }
  mid = caf::message_id{x->head.id & caf::message_id::request_id_mask}
          .with_category(caf::message_id::normal_message_category);
  if (is_order(x->head.t) && may_say(who->role, x->head.t))
    note_order(connection, *who, *x);
  if (auto why = objection(*who, *x); !why.empty())
    return refuse({ec::forbidden, std::move(why), {}});
  auto reply_to = sessions_.of(connection);
  if (!reply_to)
    return refuse({ec::overloaded, "too many operators wait for answers", {}});
  x->head.id = mid.integer_value();
  if (auto done = bus_.board.deliver(reply_to, *x, &bus_.host); !done)
    bus_.counts.dropped("undecodable");
}

/// Writes the order to the audit log before it takes effect.
void operator_endpoint::note_order(const std::string& connection,
                                   const identity& who,
                                   const wire_message& message) {
  auto what = message.head.t + " to " + shown(message.head.to, 120);
  bus_.who.note(authenticator::notable::order, who,
                "said " + what + ": "
                  + shown(order_text(message), order_longest));
  if (orders_.size() == orders_most)
    orders_.pop_front();
  auto id = message.head.id & caf::message_id::request_id_mask;
  orders_.push_back({connection, id, who, std::move(what)});
}

void operator_endpoint::note_outcome(const std::string& connection,
                                     const wire_message& message) {
  auto i = std::find_if(orders_.begin(), orders_.end(), [&](auto& o) {
    return o.id == message.head.id && o.connection == connection;
  });
  if (i == orders_.end())
    return;
  std::string outcome = " is done";
  if (message.head.t == error_reply::record_name()) {
    decode_context ctx;
    auto why = decode<error_reply>(message.body.view(), ctx);
    outcome = " is refused: " + shown(why ? why->text : "", 500);
  }
  bus_.who.note(authenticator::notable::order, i->who,
                "was told: " + i->what + outcome);
  orders_.erase(i);
}

/// Why a message is refused; empty if it is accepted.
std::string operator_endpoint::objection(const identity& who,
                                         const wire_message& message) {
  if (!may_say(who.role, message.head.t)) {
    bus_.who.offence(who, "said " + shown(message.head.t), bus_.board.now());
    return "a " + std::string{to_string(who.role)} + " may not say "
           + shown(message.head.t);
  }
  auto here = message.head.to.starts_with("./")
              || message.head.to.starts_with(bus_.node + "/");
  if (here || may_say(bus_.who.own_role(), message.head.t))
    return {};
  return "node " + bus_.node + " is no controller and cannot pass on "
         + message.head.t + "; connect to that node, or to a controller";
}

} // namespace millrace::zeromq
