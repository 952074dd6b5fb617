// SPDX-License-Identifier: Apache-2.0
#include "client/client.hpp"

#include <algorithm>

#include "runtime/text.hpp"
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

/// Whether a request may share a frame.
bool is_small(const infer& x) {
  auto n = bytes_of(x.inputs) + x.model.size() + x.version.size()
           + x.application.size();
  for (auto& input : x.inputs)
    n += input.name.size();
  return n <= 16'384;
}

/// A gateway closes the connection over a frame that is too long.
result<void> check_size(const wire_frames& x) {
  auto refuse = [](const char* what, size_t found, size_t most) {
    return error{ec::too_large,
                 std::string{what} + " has " + format_bytes(found)
                   + ", at most " + format_bytes(most) + " are taken",
                 {}};
  };
  if (x.first.size() > codec_limits::body_bytes)
    return refuse("the request without its large tensors", x.first.size(),
                  codec_limits::body_bytes);
  for (auto& part : x.raw)
    if (part.size() > wire_limits::message_bytes)
      return refuse("a tensor", part.size(), wire_limits::message_bytes);
  return {};
}

void read_reply(infer_reply& out, frame_reader& in) {
  auto type = in.head().t;
  if (auto done = in.read(out); !done)
    out = failed(ec::internal, "the gateway's answer: " + done.failure().text);
  else if (type != infer_reply::record_name())
    out =
      failed(ec::bad_request,
             "the answer is of type " + shown(type)
               + ", expected infer_reply (is the address one for clients?)");
}

result<std::vector<model_info>> read_models(frame_reader& in) {
  if (in.head().t != model_list_reply::record_name()) {
    infer_reply refused;
    read_reply(refused, in);
    return error{refused.status, refused.error, {}};
  }
  model_list_reply list;
  if (auto done = in.read(list); !done)
    return done.failure();
  return std::move(list.models);
}

} // namespace

result<client> client::connect(const std::string& address, microseconds longest,
                               const std::string& key) {
  auto x = connection::open(address, longest, key);
  if (!x)
    return x.failure();
  return client{std::move(*x)};
}

result<void> client::send(frame_writer& x) {
  auto out = x.take();
  if (auto fine = check_size(out); !fine)
    return fine;
  settle_lost(); // what goes out now loses nothing by what was before
  if (!link_->send(out))
    return error{
      ec::unavailable, "the gateway is not connected or takes no more", {}};
  return {};
}

template <class T>
result<void> client::send(const T& x, uint64_t id) {
  header head;
  head.id = id;
  frame_writer alone;
  alone.add(std::move(head), x, link_->now());
  return send(alone);
}

void client::fail(uint64_t id, const error& why) {
  if (outstanding_.erase(id) != 0)
    ready_.push_back({id, failed(why.code, why.text)});
}

/// What went out on a connection that was lost is not answered any more, but
/// for the answers that came before.
bool client::settle_lost() {
  if (!link_->was_lost())
    return false;
  while (auto x = link_->receive(microseconds{0}))
    take(*x, link_->now());
  std::vector<uint64_t> ids;
  for (auto id : outstanding_)
    if (!std::binary_search(grouped_ids_.begin(), grouped_ids_.end(), id))
      ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (auto id : ids)
    fail(id, {ec::unavailable, "the connection to the gateway was lost", {}});
  return true;
}

void client::flush() {
  if (grouped_ids_.empty())
    return;
  auto done = send(grouped_);
  auto ids = std::exchange(grouped_ids_, {});
  if (!done)
    for (auto id : ids)
      fail(id, done.failure());
}

uint64_t client::submit(const infer& x, microseconds deadline, int32_t priority,
                        std::string trace) {
  auto now = link_->now();
  header head;
  auto id = head.id = ++last_;
  head.left = {now + deadline};
  head.prio = priority;
  head.trace = std::move(trace);
  deadlines_.push(head.left.at + grace, id);
  if (grouping_ == 0 || !is_small(x)) {
    frame_writer alone;
    alone.add(std::move(head), x, now);
    auto done = send(alone);
    outstanding_.insert(id);
    if (!done)
      fail(id, done.failure());
    return id;
  }
  outstanding_.insert(id);
  grouped_.add(std::move(head), x, now);
  grouped_ids_.push_back(id);
  if (grouped_.full())
    flush();
  return id;
}

void client::take(const wire_frames& x, timestamp now) {
  frame_reader in{x.first.view(), x.raw, now};
  while (!in.at_end()) {
    if (!in.next())
      return;
    auto id = in.head().id;
    if (id != 0 && id == described_)
      models_ = read_models(in);
    else if (outstanding_.erase(id) != 0)
      read_reply(ready_.emplace_back(answer{id, {}}).reply, in);
    else
      in.skip(); // settled here already
  }
}

std::optional<client::answer> client::receive(microseconds longest) {
  flush();
  for (std::optional<timestamp> until;;) {
    if (!ready_.empty()) {
      auto out = std::move(ready_.front());
      ready_.pop_front();
      return out;
    }
    auto now = link_->now();
    if (!until)
      until = now + longest;
    else if (now >= *until)
      return std::nullopt;
    auto wait = std::min(*until, deadlines_.next_due()) - now;
    auto x = link_->receive(std::max(microseconds{0}, to_us(wait)));
    if (x) {
      take(*x, now);
    } else {
      now = link_->now();
      settle_lost();
    }
    deadlines_.take_due(now, [this](uint64_t id) {
      fail(id, {ec::unavailable, "no answer came from the gateway", {}});
    });
    deadlines_.sweep(outstanding_.size(),
                     [this](uint64_t id) { return outstanding_.contains(id); });
  }
}

infer_reply client::infer_one(const infer& x, microseconds deadline,
                              std::string trace) {
  auto id = submit(x, deadline, 0, std::move(trace));
  for (;;)
    if (auto y = receive(deadline + 1s); y && y->id == id)
      return std::move(y->reply);
}

void client::cancel(uint64_t id) {
  flush();
  static_cast<void>(send(millrace::cancel{}, id));
}

result<std::vector<model_info>> client::models(microseconds longest) {
  flush();
  described_ = ++last_;
  models_.reset();
  if (auto done = send(describe_models{}, described_); !done)
    return done.failure();
  auto now = link_->now();
  for (auto until = now + longest; now < until && !models_;
       now = link_->now()) {
    if (auto x = link_->receive(to_us(until - now)))
      take(*x, now);
    else if (settle_lost())
      break;
  }
  return models_
           ? std::move(*models_)
           : error{ec::unavailable, "no answer came from the gateway", {}};
}

} // namespace millrace
