// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/socket.hpp"

#include <cstdint>
#include <cstring>
#include <utility>

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/stat.h>

#include "runtime/text.hpp"

namespace millrace::zeromq {

namespace {

/// Frames up to this size are copied into the message; larger ones are lent.
constexpr size_t copy_up_to = 1024;

/// Interval of TCP keepalive probes without traffic.
constexpr int keepalive_seconds = 1;

constexpr size_t max_frames = wire_limits::attachments + 2;

void set_common(zmq::socket_t& x, const socket_options& o) {
  x.set(zmq::sockopt::linger, 200);
  x.set(zmq::sockopt::sndhwm, o.send_limit);
  x.set(zmq::sockopt::rcvhwm, o.receive_limit);
  x.set(zmq::sockopt::maxmsgsize, static_cast<int64_t>(o.longest_frame));
  // TCP keepalive in place of ZMTP heartbeats: libzmq 4.3 aborts when a
  // heartbeat is due after an error on a connection with stopped input (issues
  // 3937 and 4364 of libzmq). A slow reader, or a close while data arrives,
  // stops the input.
  x.set(zmq::sockopt::tcp_maxrt, o.unacknowledged_ms);
  x.set(zmq::sockopt::tcp_keepalive, 1);
  x.set(zmq::sockopt::tcp_keepalive_idle, keepalive_seconds);
  x.set(zmq::sockopt::tcp_keepalive_intvl, keepalive_seconds);
  x.set(zmq::sockopt::handshake_ivl, 1000);
  x.set(zmq::sockopt::immediate, true);
}

/// During its life new files are accessible to this user only.
class only_for_this_user {
public:
  ~only_for_this_user() { ::umask(before_); }

private:
  mode_t before_ = ::umask(0077);
};

/// A bind address with a numeric host: libzmq would take a name for that of an
/// interface. Errors: bad_config for a name without an address.
result<std::string> with_number(const std::string& address) {
  constexpr std::string_view tcp = "tcp://";
  auto colon = address.rfind(':');
  if (!address.starts_with(tcp) || colon < tcp.size())
    return address;
  auto host = address.substr(tcp.size(), colon - tcp.size());
  in_addr number;
  if (host == "*" || host.starts_with('[')
      || ::inet_pton(AF_INET, host.c_str(), &number) == 1
      || ::if_nametoindex(host.c_str()) != 0)
    return address;
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (auto why = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); why != 0)
    return error{ec::bad_config, "address " + shown(address, 120) + ": host "
                                   + shown(host) + ": " + ::gai_strerror(why)
                                   + " (expected a host, an IP address or a"
                                     " network interface)"};
  char text[INET_ADDRSTRLEN] = {};
  auto* at = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  ::inet_ntop(AF_INET, &at->sin_addr, text, sizeof text);
  ::freeaddrinfo(found);
  return std::string{tcp} + text + address.substr(colon);
}

struct loan {
  shared_bytes bytes;
  loan_account account;
  size_t charge;
};

void take_back(void*, void* hint) {
  auto* x = static_cast<loan*>(hint);
  if (x->account)
    *x->account -= x->charge;
  delete x;
}

/// Lends a frame, or copies it if it is small. The first lent frame also
/// charges earlier copied bytes to the account.
zmq::message_t lend(const shared_bytes& x, loan_terms& terms) {
  if (x.size() <= copy_up_to && terms.copied == 0)
    return zmq::message_t{x.data(), x.size()};
  auto charge = x.size() + std::exchange(terms.copied, 0);
  auto lent = std::make_unique<loan>(loan{x, terms.account, charge});
  zmq::message_t out{const_cast<std::byte*>(x.data()), x.size(), take_back,
                     lent.get()};
  if (terms.account)
    *terms.account += charge;
  static_cast<void>(lent.release()); // owned by the message from here on
  return out;
}

bool send_frame(zmq::socket_t& to, zmq::message_t&& x, bool more) {
  auto flags = zmq::send_flags::dontwait;
  if (more)
    flags = flags | zmq::send_flags::sndmore;
  return undisturbed([&] { return to.send(x, flags); }).has_value();
}

bool send_parts(zmq::socket_t& to, std::string_view routing_id,
                zmq::message_t&& first, const std::vector<shared_bytes>& raw,
                loan_terms terms) {
  try {
    // Allocate all parts before the first is sent. If memory ran out in the
    // middle, the next message on the socket would continue this one.
    std::vector<zmq::message_t> parts;
    parts.reserve(raw.size());
    for (auto& part : raw)
      parts.push_back(lend(part, terms));
    if (!routing_id.empty()
        && !send_frame(to, zmq::message_t{routing_id}, true))
      return false;
    auto left = parts.size();
    if (!send_frame(to, std::move(first), left > 0))
      return false;
    for (auto& part : parts)
      if (!send_frame(to, std::move(part), --left > 0))
        return false;
    return true;
  } catch (const zmq::error_t&) { // the receiver is missing
    return false;
  }
}

} // namespace

result<zmq::socket_t> bind_router(zmq::context_t& context,
                                  const std::string& address,
                                  const socket_options& options,
                                  const std::optional<curve_server>& secured) {
  auto numbered = with_number(address);
  if (!numbered)
    return numbered.failure();
  try {
    zmq::socket_t out{context, zmq::socket_type::router};
    set_common(out, options);
    out.set(zmq::sockopt::router_mandatory, true);
    out.set(zmq::sockopt::router_handover, false);
    out.set(zmq::sockopt::backlog, 1024);
    if (secured)
      serve_with(out, *secured);
    only_for_this_user mask;
    out.bind(*numbered);
    return out;
  } catch (const zmq::error_t& e) {
    return error{ec::bad_config, "address " + shown(address, 120)
                                   + " cannot be bound: " + e.what()
                                   + " (expected like tcp://127.0.0.1:7100)"};
  }
}

zmq::socket_t make_dealer(zmq::context_t& context,
                          const std::string& routing_id,
                          const socket_options& options) {
  zmq::socket_t out{context, zmq::socket_type::dealer};
  set_common(out, options);
  if (!routing_id.empty())
    out.set(zmq::sockopt::routing_id, routing_id);
  // Otherwise the kernel tries for minutes, with growing pauses, and detects a
  // restored network late.
  out.set(zmq::sockopt::connect_timeout, options.connect_timeout_ms);
  out.set(zmq::sockopt::reconnect_ivl, 50);
  out.set(zmq::sockopt::reconnect_ivl_max, options.reconnect_max_ms);
  return out;
}

result<void> connect(zmq::socket_t& socket, const std::string& address) {
  try {
    socket.connect(address);
    return {};
  } catch (const zmq::error_t& e) {
    return error{ec::bad_config, "address " + shown(address, 120)
                                   + " cannot be connected to: " + e.what()};
  }
}

std::string bound_address(zmq::socket_t& socket) {
  return socket.get(zmq::sockopt::last_endpoint);
}

bool receive(zmq::socket_t& from, frame_list& out) {
  constexpr size_t usual = 4; // an id, a message, one or two tensors
  out.clear();
  out.reserve(usual);
  for (;;) {
    zmq::message_t part;
    if (!undisturbed(
          [&] { return from.recv(part, zmq::recv_flags::dontwait); }))
      return false;
    auto more = part.more();
    // One frame above the limit is kept, so that to_wire detects the excess.
    if (out.size() <= max_frames)
      out.push_back(std::move(part));
    if (!more)
      return true;
  }
}

bool send(zmq::socket_t& to, std::string_view routing_id,
          const wire_message& message, timestamp now) {
  auto head = encode_header(message.head, now);
  zmq::message_t first{head.size() + message.body.size()};
  std::memcpy(first.data(), head.data(), head.size());
  std::memcpy(first.data<std::byte>() + head.size(), message.body.data(),
              message.body.size());
  return send_parts(to, routing_id, std::move(first), message.attachments, {});
}

bool send(zmq::socket_t& to, std::string_view routing_id,
          const wire_frames& frames, loan_terms terms) {
  auto first = lend(frames.first, terms);
  return send_parts(to, routing_id, std::move(first), frames.raw,
                    std::move(terms));
}

bool is_copied(const wire_frames& frames) {
  return frames.first.size() <= copy_up_to && frames.raw.empty();
}

const_bytes view(const zmq::message_t& message) {
  return {static_cast<const std::byte*>(message.data()), message.size()};
}

shared_bytes adopt(zmq::message_t&& message) {
  // Small messages may lie unaligned in ZeroMQ's read buffer.
  if ((reinterpret_cast<uintptr_t>(message.data()) & 7) != 0)
    return shared_bytes::copy_of(view(message));
  auto owner = std::make_shared<zmq::message_t>(std::move(message));
  auto bytes = view(*owner);
  return {bytes, std::move(owner)};
}

result<std::vector<shared_bytes>> take_raw(frame_list& frames, size_t first) {
  std::vector<shared_bytes> out;
  auto count = frames.size() - first;
  if (count > wire_limits::attachments)
    return error{ec::too_large, "the message has more than 4096 raw frames"};
  out.reserve(count);
  for (size_t i = first; i < frames.size(); ++i)
    out.push_back(adopt(std::move(frames[i])));
  return out;
}

result<wire_message> to_wire(frame_list& frames, size_t first, timestamp now) {
  if (frames.size() <= first)
    return error{ec::bad_request, "the message has no frame"};
  auto opened = open_frame(view(frames[first]), now);
  if (!opened)
    return opened.failure();
  auto raw = take_raw(frames, first + 1);
  if (!raw)
    return raw.failure();
  return wire_message{std::move(opened->head),
                      shared_bytes{opened->body, nullptr}, std::move(*raw)};
}

} // namespace millrace::zeromq
