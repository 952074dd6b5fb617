// SPDX-License-Identifier: Apache-2.0
#include "transport/client_message.hpp"

#include "runtime/text.hpp"
#include "transport/access.hpp"
#include "transport/bus.hpp"

namespace millrace {

request_group::~request_group() {
  if (via == nullptr)
    return;
  for (auto& x : requests) {
    if (x.taken)
      continue;
    infer_reply y;
    y.status = ec::unavailable;
    y.error = "the gateway is not in service";
    via->answer(from, x.tag, std::move(y));
  }
}

namespace {

class client_frame_decoder {
public:
  client_frame_decoder(bus* net, const session& from, frame_reader in)
    : net_(net),
      from_(from),
      in_(in) {}

  client_frame run() {
    do { // an empty frame is answered too
      auto n = in_.bytes_left();
      if (auto done = in_.next(); !done) {
        refuse({0, grouped()}, done.failure());
        break;
      }
      auto id = in_.head().id;
      if (out_.messages == wire_limits::grouped) {
        refuse({id, true},
               {ec::too_large, "a frame has at most 64 messages", {}});
        break;
      }
      ++out_.messages;
      if (auto done = take(); !done)
        refuse({id, grouped()}, done.failure());
      if (out_.messages == 1 && !in_.at_end())
        expect((n - 1) / (n - in_.bytes_left()));
    } while (!in_.at_end());
    return std::move(out_);
  }

private:
  /// Whether others came before or come after.
  bool grouped() const { return out_.messages > 1 || !in_.at_end(); }

  void refuse(client_tag tag, const error& why) {
    out_.refused.push_back({tag, why});
  }

  /// About so many more like the first one follow.
  void expect(size_t n) {
    if (open_group_)
      open_group_->requests.reserve(std::min(n + 1, wire_limits::grouped));
  }

  result<void> take() {
    auto& head = in_.head();
    if (!may_say(role::client, head.t)) {
      static_cast<void>(in_.skip());
      return error{ec::forbidden, "clients may not say " + shown(head.t), {}};
    }
    if (head.t == infer::record_name())
      return take_request();
    open_group_ = nullptr;
    if (head.t == cancel::record_name()) {
      out_.accepted.push_back(caf::make_message(client_cancel{from_, head.id}));
      return in_.skip();
    }
    describe_models what;
    if (auto done = in_.read(what); !done)
      return done;
    out_.accepted.push_back(caf::make_message(
      client_describe{from_, {head.id, grouped()}, std::move(what.model)}));
    return {};
  }

  result<void> take_request() {
    // Twice, for the list that grows.
    if (auto room = in_.spend(2 * sizeof(client_request)); !room) {
      static_cast<void>(in_.skip());
      return room;
    }
    auto group = open_group_;
    if (!group)
      group = std::make_shared<request_group>(net_, from_);
    // Decoded where it stays: a request is many small moves.
    auto& x = group->requests.emplace_back();
    if (auto done = in_.read(x.request); !done) {
      group->requests.pop_back();
      return done;
    }
    auto& head = in_.head();
    x.tag = {head.id, grouped()};
    x.due = head.left;
    x.priority = head.prio;
    x.trace = std::move(head.trace);
    if (open_group_)
      return {};
    out_.accepted.push_back(caf::make_message(client_requests{group}));
    open_group_ = std::move(group);
    return {};
  }

  bus* net_;
  const session& from_;
  frame_reader in_;
  client_frame out_;
  std::shared_ptr<request_group> open_group_; ///< that the next one may join
};

} // namespace

client_frame decode_client_frame(bus* net, const session& from,
                                 const_bytes first,
                                 std::span<const shared_bytes> raw,
                                 timestamp now) {
  return client_frame_decoder{net, from, frame_reader{first, raw, now}}.run();
}

} // namespace millrace
