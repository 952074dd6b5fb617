// SPDX-License-Identifier: Apache-2.0
#include "client/connection.hpp"

#include <array>

#include "transport/keys/key_file.hpp"
#include "transport/zmq/curve.hpp"
#include "transport/zmq/socket.hpp"

namespace millrace {

namespace {

class zmq_connection : public connection {
public:
  result<void> open(const std::string& address, microseconds longest,
                    const std::string& key) {
    zeromq::socket_options options;
    options.send_limit = 100'000;
    options.receive_limit = 100'000;
    socket_ = zeromq::make_dealer(context_, {}, options);
    if (auto done = use_key(key); !done)
      return done;
    auto failures = zeromq::watch_handshakes(context_, socket_);
    if (auto done = zeromq::connect(socket_, address); !done)
      return done;
    // With IMMEDIATE set, a socket takes messages once it is connected.
    std::array<zmq::pollitem_t, 2> items{
      {{socket_.handle(), 0, ZMQ_POLLOUT, 0},
       {failures.handle(), 0, ZMQ_POLLIN, 0}}};
    zmq::poll(items.data(), items.size(),
              std::chrono::ceil<milliseconds>(longest));
    if ((items[0].revents & ZMQ_POLLOUT) != 0)
      return {};
    if ((items[1].revents & ZMQ_POLLIN) == 0)
      return error{ec::unavailable, "nobody listens at " + address, {}};
    if (key.empty())
      return error{ec::forbidden, address + " lets in only who has a key", {}};
    return error{
      ec::forbidden, address + " does not let in the key of " + key, {}};
  }

  bool send(const wire_frames& x) override {
    return zeromq::send(socket_, {}, x);
  }

  std::optional<wire_frames> receive(microseconds longest) override {
    // The clock is asked only when there is nothing yet.
    auto x = take();
    if (x || longest <= microseconds{0})
      return x;
    for (auto until = now() + longest;;) {
      auto left = std::chrono::ceil<milliseconds>(until - now());
      if (left <= milliseconds{0})
        return std::nullopt;
      zmq::pollitem_t item{socket_.handle(), 0, ZMQ_POLLIN, 0};
      zmq::poll(&item, 1, left);
      x = take();
      if (x)
        return x;
    }
  }

  timestamp now() const override { return std::chrono::steady_clock::now(); }

private:
  result<void> use_key(const std::string& path) {
    if (path.empty())
      return {};
    auto key = read_key_file(path);
    if (!key)
      return key.failure();
    if (key->cluster_key.empty())
      return error{ec::bad_config,
                   path + ": is a node's; expected a client's or operator's",
                   {}};
    zeromq::connect_with(socket_, key->pair(), key->cluster_key);
    return {};
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

  zmq::context_t context_{1};
  zmq::socket_t socket_;
  zeromq::frame_list frames_;
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
