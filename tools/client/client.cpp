// SPDX-License-Identifier: Apache-2.0
#include "client/client.hpp"

#include <algorithm>

#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "transport/codec.hpp"

namespace millrace {

namespace {

/// How long after a request's deadline the client still waits for its answer.
/// By then the gateway has answered deadline_exceeded.
constexpr microseconds grace = 250ms;

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

/// A gateway closes the connection when a frame is too long.
result<void> check_size(const wire_frames& x) {
  auto refuse = [](const char* what, size_t found, size_t most) {
    return error{ec::too_large,
                 std::string{what} + " has " + format_bytes(found)
                   + ", at most " + format_bytes(most) + " are accepted",
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

/// Deadlines that a header can carry.
constexpr microseconds deadline_max{int64_t{1} << 43};

result<void> check_times(const infer& x, microseconds deadline) {
  auto refuse = [](const char* what, microseconds found) {
    return error{ec::bad_request,
                 std::string{what} + " of " + format_duration(found)
                   + ": expected 0 to " + format_duration(deadline_max),
                 {}};
  };
  if (deadline < 0us || deadline > deadline_max)
    return refuse("a deadline", deadline);
  if (x.latency && (*x.latency < 0us || *x.latency > deadline_max))
    return refuse("a latency", *x.latency);
  return {};
}

const error client_closed{ec::unavailable, "this client is closed", {}};
const error no_answer{ec::unavailable, "no answer came from the gateway", {}};
const error connection_lost{
  ec::unavailable, "the connection to the gateway was lost", {}};

} // namespace

result<client> client::connect(const std::string& address, microseconds longest,
                               const std::string& key) {
  auto x = connection::open(address, longest, key);
  if (!x)
    return x.failure();
  return client{std::move(*x)};
}

/// Gives a request its id.
uint64_t client::open(timestamp due, microseconds patience) {
  auto id = ++last_;
  open_[id] = {due, due + patience, std::nullopt};
  deadlines_.push(due + patience, id);
  return id;
}

/// Sends a frame at once, or keeps it until there is room.
void client::send(frame_writer& frames, std::vector<uint64_t> ids) {
  auto out = frames.take();
  auto refuse = [&](const error& why) {
    for (auto id : ids)
      fail(id, why);
  };
  if (auto fine = check_size(out); !fine)
    return refuse(fine.failure());
  settle_lost(); // an earlier loss does not concern this frame
  send_waiting();
  if (unsent_.empty() && send_now(out, ids))
    return;
  for (auto id : ids)
    if (auto i = open_.find(id); i != open_.end())
      deadlines_.push(i->second.due, id);
  if (!unsent_.push({ids, std::move(out)}))
    refuse({ec::unavailable,
            "the request was not sent: "
              + std::to_string(unsent_frames::requests_max)
              + " others wait until the gateway takes them",
            {}});
}

bool client::send_now(const wire_frames& frames,
                      const std::vector<uint64_t>& ids) {
  if (!link_->send(frames))
    return false;
  auto now = link_->now();
  for (auto id : ids)
    if (auto i = open_.find(id); i != open_.end())
      i->second.sent = now;
  return true;
}

/// Sends waiting frames, as far as the send buffer has room.
void client::send_waiting() {
  while (!unsent_.empty() && link_->has_room()) {
    auto now = link_->now();
    auto next = unsent_.pop();
    auto due_of = [&](uint64_t id) -> std::optional<timestamp> {
      auto i = open_.find(id);
      if (i == open_.end() || i->second.due <= now)
        return std::nullopt;
      return i->second.due;
    };
    auto out = with_time_left(next.content, now, due_of);
    if (out.first.size() == 0) // all its requests are settled
      continue;
    std::erase_if(next.ids, [&](auto id) { return !due_of(id); });
    if (!send_now(out, next.ids))
      return unsent_.put_back(std::move(next)); // the connection was just lost
  }
}

void client::fail(uint64_t id, const error& why) {
  if (open_.erase(id) == 0)
    return;
  if (id == described_)
    models_ = why;
  else
    ready_.push_back({id, failed(why.code, why.text)});
}

/// Returns how to handle a request at its deadline, and when to stop waiting
/// for its answer.
void client::expire(uint64_t id, timestamp now) {
  auto i = open_.find(id);
  if (i == open_.end())
    return;
  auto x = i->second;
  if (!x.sent && x.due <= now)
    return fail(id, not_sent());
  if (now < x.until)
    return;
  fail(id, no_answer);
  if (silence_.on_timeout(*x.sent, now)) {
    link_->renew();
    settle_lost();
  }
}

error client::not_sent() const {
  auto why = link_->is_connected()
               ? "the send buffer for " + link_->address() + " stayed full"
               : "no gateway could be reached at " + link_->address();
  return {ec::unavailable, "the request was not sent in time: " + why, {}};
}

/// Requests on a lost connection are unavailable, except those with an answer
/// already received.
bool client::settle_lost() {
  if (!link_->was_lost())
    return false;
  while (auto x = link_->receive(microseconds{0}))
    take(*x, link_->now());
  silence_ = {};
  std::vector<uint64_t> ids;
  for (auto& [id, x] : open_)
    if (x.sent)
      ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (auto id : ids)
    fail(id, connection_lost);
  return true;
}

void client::flush() {
  if (!grouped_ids_.empty())
    send(grouped_, std::exchange(grouped_ids_, {}));
}

uint64_t client::submit(const infer& request, microseconds deadline,
                        int32_t priority, std::string trace) {
  auto fine = check_times(request, deadline);
  if (!link_ || !fine) {
    auto why = link_ ? fine.failure() : client_closed;
    ready_.push_back({++last_, failed(why.code, why.text)});
    return last_;
  }
  auto now = link_->now();
  header head;
  auto id = head.id = open(now + deadline, grace);
  head.left = {now + deadline};
  head.prio = priority;
  head.trace = std::move(trace);
  if (grouping_ == 0 || !is_small(request)) {
    frame_writer alone;
    alone.add(std::move(head), request, now);
    send(alone, {id});
    return id;
  }
  grouped_.add(std::move(head), request, now);
  grouped_ids_.push_back(id);
  if (grouped_.full())
    flush();
  return id;
}

void client::take(const wire_frames& frames, timestamp now) {
  silence_.on_message(now);
  frame_reader in{frames.first.view(), frames.raw, now};
  while (!in.at_end()) {
    if (!in.next())
      return;
    auto id = in.head().id;
    auto is_open = open_.erase(id) != 0;
    if (is_open && id == described_)
      models_ = read_models(in);
    else if (is_open)
      read_reply(ready_.emplace_back(answer{id, {}}).reply, in);
    else
      in.skip(); // settled by the client already
  }
}

/// Waits for one event of the connection, at most until `until`, and handles
/// the event.
void client::step(timestamp until) {
  send_waiting();
  auto now = link_->now();
  auto wait = std::max(microseconds{0},
                       to_us(std::min(until, deadlines_.next_due()) - now));
  if (!unsent_.empty())
    link_->wait_for_room(std::exchange(wait, microseconds{0}));
  auto x = link_->receive(wait);
  now = link_->now();
  if (x)
    take(*x, now);
  else
    settle_lost();
  deadlines_.take_due(now, [&](uint64_t id) { expire(id, now); });
  deadlines_.sweep(open_.size(),
                   [this](uint64_t id) { return open_.contains(id); });
}

std::optional<client::answer> client::receive(microseconds longest) {
  if (link_)
    flush();
  for (std::optional<timestamp> until;;) {
    if (!ready_.empty()) {
      auto out = std::move(ready_.front());
      ready_.pop_front();
      return out;
    }
    if (!link_)
      return std::nullopt;
    auto now = link_->now();
    if (!until)
      until = now + longest;
    else if (now >= *until)
      return std::nullopt;
    step(*until);
  }
}

infer_reply client::infer_one(const infer& request, microseconds deadline,
                              std::string trace) {
  auto id = submit(request, deadline, 0, std::move(trace));
  for (;;)
    if (auto y = receive(1s); y && y->id == id)
      return std::move(y->reply);
}

void client::cancel(uint64_t id) {
  if (!link_)
    return;
  flush();
  auto i = open_.find(id);
  if (i == open_.end())
    return;
  if (!i->second.sent)
    return fail(id, {ec::cancelled, "cancelled before it was sent", {}});
  header head;
  head.id = id;
  frame_writer alone;
  alone.add(std::move(head), millrace::cancel{}, link_->now());
  send(alone, {});
}

result<std::vector<model_info>> client::models(microseconds longest) {
  if (!link_)
    return client_closed;
  flush();
  models_.reset();
  auto now = link_->now();
  described_ = open(now + longest, 0us);
  header head;
  head.id = described_;
  frame_writer alone;
  alone.add(std::move(head), describe_models{}, now);
  send(alone, {described_});
  while (!models_)
    step(far_future);
  return std::move(*models_);
}

void client::close() {
  if (!link_)
    return;
  link_.reset();
  unsent_.clear();
  grouped_.take();
  grouped_ids_.clear();
  std::vector<uint64_t> ids;
  for (auto& [id, x] : open_)
    ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (auto id : ids)
    fail(id, client_closed);
}

} // namespace millrace
