// SPDX-License-Identifier: Apache-2.0
#include "client/connection.hpp"

#include <array>
#include <utility>

#include "runtime/random.hpp"
#include "transport/keys/key_file.hpp"
#include "transport/zmq/curve.hpp"
#include "transport/zmq/socket.hpp"
#include "transport/zmq/socket_events.hpp"

namespace millrace {

namespace {

/// Minimum and maximum of the random pause before a refused client connects
/// again. A suspended key may be resumed, and refused clients must not
/// reconnect all at once. After a lost connection libzmq adds its own random
/// pause.
constexpr milliseconds refused_pauses[] = {500ms, 1500ms};

/// Reading connection events is a system call. libzmq's first pause is 50 ms,
/// so that no new connection exists earlier.
constexpr auto look_again = 25ms;

class zmq_connection : public connection {
public:
  result<void> open(const std::string& address, microseconds longest,
                    const std::string& key) {
    address_ = address;
    if (auto done = read_key(key); !done)
      return done;
    if (auto done = connect(); !done)
      return done;
    // With IMMEDIATE set, a socket takes messages once it is connected.
    for (auto until = now() + longest; now() < until && !retry_at_;) {
      if ((poll(ZMQ_POLLOUT, to_us(until - now())) & ZMQ_POLLOUT) != 0)
        return {};
      take_events();
    }
    if (!retry_at_)
      return error{ec::unavailable,
                   cut_off_
                     ? address + " accepts connections, but does not answer: "
                         + silent_because()
                     : "no answer from " + address,
                   {}};
    if (!key_)
      return error{
        ec::forbidden, address + " accepts only connections with a key", {}};
    return error{ec::forbidden,
                 address + " refuses the key of " + key
                   + ": for another role, unknown, suspended, or blocked for a "
                     "minute after forbidden messages",
                 {}};
  }

  bool send(const wire_frames& frames) override {
    return zeromq::send(socket_, {}, frames);
  }

  bool has_room() override {
    auto events =
      zeromq::undisturbed([&] { return socket_.get(zmq::sockopt::events); });
    return (events & ZMQ_POLLOUT) != 0;
  }

  void wait_for_room(microseconds longest) override {
    for (auto until = now() + longest;;) {
      auto wake = std::min(until, retry_at_.value_or(until));
      if (poll(ZMQ_POLLIN | ZMQ_POLLOUT, to_us(wake - now())) != 0)
        return;
      take_events();
      if (lost_ || now() >= until)
        return;
    }
  }

  std::optional<wire_frames> receive(microseconds longest) override {
    // Reads the clock only if no message is there.
    auto x = take();
    if (x || longest <= microseconds{0})
      return x;
    for (auto until = now() + longest;;) {
      auto wake = std::min(until, retry_at_.value_or(until));
      poll(ZMQ_POLLIN, to_us(wake - now()));
      x = take();
      if (x)
        return x;
      take_events();
      if (lost_ || now() >= until)
        return std::nullopt;
    }
  }

  bool was_lost() override {
    if (!lost_ && now() - looked_ < look_again)
      return false;
    take_events();
    return std::exchange(lost_, false);
  }

  void renew() override {
    static_cast<void>(connect());
    lost_ = true;
  }

  bool is_connected() const override { return connected_; }
  const std::string& address() const override { return address_; }
  timestamp now() const override { return steady_now(); }

private:
  result<void> read_key(const std::string& path) {
    if (path.empty())
      return {};
    auto key = read_key_file(path);
    if (!key)
      return key.failure();
    if (key->cluster_key.empty())
      return error{ec::bad_config,
                   path
                     + ": is no key of a client, viewer or operator: the "
                       "cluster's key is missing",
                   {}};
    key_ = std::move(*key);
    return {};
  }

  result<void> connect() {
    retry_at_.reset();
    connected_ = false;
    events_.stop();
    socket_ =
      zeromq::make_dealer(context_, {}, zeromq::socket_options::of_client());
    if (key_)
      zeromq::connect_with(socket_, key_->pair(), key_->cluster_key);
    events_ = zeromq::socket_events{
      context_, socket_,
      ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
        | zeromq::broken_handshake | zeromq::failed_handshakes};
    return zeromq::connect(socket_, address_);
  }

  /// Waits for the socket or for a connection event. Returns the events that
  /// the socket is ready for.
  short poll(short what, microseconds longest) {
    std::array<zmq::pollitem_t, 2> items{
      {{socket_.handle(), 0, what, 0},
       {events_.socket().handle(), 0, ZMQ_POLLIN, 0}}};
    auto most =
      std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(longest));
    // zmq::poll would throw when a signal interrupts it.
    if (zmq_poll(items.data(), static_cast<int>(items.size()), most.count())
        <= 0)
      return 0;
    return items[0].revents;
  }

  /// A server with keys may close a connection before it can send a reason.
  std::string silent_because() const {
    return std::string{"a node that hangs, a balancer without nodes, or "}
           + (key_ ? "another cluster's"
                   : "a node that accepts only connections with a key");
  }

  void take_events() {
    looked_ = now();
    while (auto event = events_.next()) {
      connected_ = event->kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
      lost_ = lost_ || event->kind == ZMQ_EVENT_DISCONNECTED;
      cut_off_ = cut_off_ || event->kind == zeromq::broken_handshake;
      if ((event->kind & zeromq::failed_handshakes) != 0)
        retry_at_ = now() + pause(); // libzmq does not retry after a refusal
    }
    if (retry_at_ && now() >= *retry_at_)
      static_cast<void>(connect());
  }

  milliseconds pause() {
    auto [least, most] = refused_pauses;
    return least
           + milliseconds{
             chance_.below(static_cast<uint64_t>((most - least).count()))};
  }

  std::optional<wire_frames> take() {
    while (zeromq::receive(socket_, frames_))
      if (auto raw = zeromq::take_raw(frames_, 1)) {
        auto first = std::make_shared<zmq::message_t>(std::move(frames_[0]));
        auto bytes = zeromq::view(*first);
        return wire_frames{{bytes, std::move(first)}, std::move(*raw)};
      }
    return std::nullopt;
  }

  std::string address_;
  std::optional<key_file> key_;
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  zeromq::socket_events events_; // after the socket, so destroyed before it
  zeromq::frame_list frames_;
  bool connected_ = false;
  bool lost_ = false;
  timestamp looked_;     ///< the last check for events
  bool cut_off_ = false; ///< some connection was closed during the handshake
  random_stream chance_{
    static_cast<uint64_t>(now().time_since_epoch().count())};
  std::optional<timestamp> retry_at_; ///< set when the connection was refused
};

} // namespace

result<std::unique_ptr<connection>> connection::open(const std::string& address,
                                                     microseconds longest,
                                                     const std::string& key) {
  auto out = std::make_unique<zmq_connection>();
  if (auto done = out->open(address, longest, key); !done)
    return done.failure();
  return std::unique_ptr<connection>{std::move(out)};
}

} // namespace millrace
