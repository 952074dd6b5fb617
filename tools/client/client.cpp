// SPDX-License-Identifier: Apache-2.0
#include "client/client.hpp"

#include "runtime/units.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

/// How long after its deadline an answer is still waited for: the gateway says
/// deadline_exceeded by then.
constexpr auto grace = 250ms;

infer_reply failed(ec status, std::string text) {
  infer_reply out;
  out.status = status;
  out.error = std::move(text);
  return out;
}

/// A gateway closes the connection over a frame that is too long.
result<void> check_size(const wire_message& x) {
  auto refuse = [](const char* what, size_t found, size_t most) {
    return error{ec::too_large,
                 std::string{what} + " has " + format_bytes(found)
                   + ", at most " + format_bytes(most) + " are taken",
                 {}};
  };
  if (x.body.size() > codec_limits::body_bytes)
    return refuse("the request without its large tensors", x.body.size(),
                  codec_limits::body_bytes);
  for (auto& part : x.attachments)
    if (part.size() > wire_limits::message_bytes)
      return refuse("a tensor", part.size(), wire_limits::message_bytes);
  return {};
}

} // namespace

result<client> client::connect(const std::string& address,
                               microseconds longest) {
  auto x = connection::open(address, longest);
  if (!x)
    return x.failure();
  return client{std::move(*x)};
}

template <class T>
result<void> client::send(const T& x, uint64_t id, deadline due,
                          int32_t priority) {
  auto y = make_wire_message(x, link_->now(), nullptr);
  y.head.id = id;
  y.head.left = due;
  y.head.prio = priority;
  if (auto fine = check_size(y); !fine)
    return fine;
  if (!link_->send(y))
    return error{
      ec::unavailable, "the gateway is not connected or takes no more", {}};
  return {};
}

uint64_t client::submit(const infer& x, microseconds deadline,
                        int32_t priority) {
  auto id = ++last_;
  auto due = link_->now() + deadline;
  if (auto done = send(x, id, {due}, priority); !done) {
    ready_.push_back({id, failed(done.failure().code, done.failure().text)});
    return id;
  }
  outstanding_.insert(id);
  deadlines_.push(due + grace, id);
  return id;
}

std::optional<client::answer> client::take(const wire_message& x) {
  if (outstanding_.erase(x.head.id) == 0)
    return std::nullopt; // settled here already
  decode_context ctx{link_->now(), nullptr, x.attachments, 0};
  auto reply = decode<infer_reply>(x.body.view(), ctx);
  return answer{x.head.id, reply
                             ? std::move(*reply)
                             : failed(ec::internal, "the gateway's answer: "
                                                      + reply.failure().text)};
}

std::optional<client::answer> client::receive(microseconds longest) {
  auto until = link_->now() + longest;
  for (;;) {
    if (!ready_.empty()) {
      auto out = std::move(ready_.front());
      ready_.pop_front();
      return out;
    }
    auto now = link_->now();
    auto wait = std::min(until, deadlines_.next_due()) - now;
    auto x = link_->receive(std::max(microseconds{0}, to_us(wait)));
    if (x)
      if (auto out = take(*x))
        return out;
    deadlines_.take_due(link_->now(), [this](uint64_t id) {
      if (outstanding_.erase(id) != 0)
        ready_.push_back(
          {id, failed(ec::unavailable, "no answer came from the gateway")});
    });
    deadlines_.sweep(outstanding_.size(),
                     [this](uint64_t id) { return outstanding_.contains(id); });
    if (!x && ready_.empty() && link_->now() >= until)
      return std::nullopt;
  }
}

infer_reply client::infer_one(const infer& x, microseconds deadline) {
  auto id = submit(x, deadline);
  for (;;)
    if (auto y = receive(deadline + 1s); y && y->id == id)
      return std::move(y->reply);
}

void client::cancel(uint64_t id) {
  static_cast<void>(send(millrace::cancel{}, id, {}, 0));
}

result<std::vector<model_info>> client::models(microseconds longest) {
  auto id = ++last_;
  if (auto done = send(describe_models{}, id, {}, 0); !done)
    return done.failure();
  auto until = link_->now() + longest;
  while (auto x = link_->receive(to_us(until - link_->now()))) {
    if (x->head.id != id) {
      if (auto other = take(*x))
        ready_.push_back(std::move(*other));
      continue;
    }
    decode_context ctx{link_->now(), nullptr, x->attachments, 0};
    if (x->head.t == infer_reply::record_name()) {
      auto refused = decode<infer_reply>(x->body.view(), ctx);
      return error{refused ? refused->status : ec::internal,
                   refused ? refused->error : "an undecodable answer",
                   {}};
    }
    auto list = decode<model_list_reply>(x->body.view(), ctx);
    if (!list)
      return list.failure();
    return std::move(list->models);
  }
  return error{ec::unavailable, "no answer came from the gateway", {}};
}

} // namespace millrace
