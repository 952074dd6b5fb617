// SPDX-License-Identifier: Apache-2.0
#include "client/client.hpp"

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

} // namespace

result<client> client::connect(const std::string& address,
                               microseconds longest) {
  auto x = connection::open(address, longest);
  if (!x)
    return x.failure();
  return client{std::move(*x)};
}

template <class T>
bool client::send(const T& x, uint64_t id, deadline due, int32_t priority) {
  auto y = make_wire_message(x, link_->now(), nullptr);
  y.head.id = id;
  y.head.left = due;
  y.head.prio = priority;
  return link_->send(y);
}

uint64_t client::submit(const infer& x, microseconds deadline,
                        int32_t priority) {
  auto id = ++last_;
  auto due = link_->now() + deadline;
  if (!send(x, id, {due}, priority)) {
    ready_.push_back({id, failed(ec::unavailable, "the gateway is not"
                                                  " connected or takes no"
                                                  " more")});
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
  send(millrace::cancel{}, id, {}, 0);
}

result<std::vector<model_info>> client::models(microseconds longest) {
  auto id = ++last_;
  if (!send(describe_models{}, id, {}, 0))
    return error{ec::unavailable, "the gateway is not connected", {}};
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
