// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "client/client.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/live_cluster.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Receives the frames of a client and answers none.
class listener {
public:
  listener()
    : socket_(
      std::move(*zeromq::bind_router(context_, "tcp://127.0.0.1:*", {}))),
      gateway(std::move(*client::connect(zeromq::bound_address(socket_)))) {}

  /// Number of messages in the next frame; 0 if none arrives.
  size_t next_frame() {
    if (!socket_)
      return 0;
    zeromq::frame_list frames;
    for (auto begin = steady_now(); !zeromq::receive(socket_, frames);)
      if (steady_now() - begin > 200ms)
        return 0;
    size_t n = 0;
    frame_reader in{zeromq::view(frames.at(1)), {}, steady_now()};
    for (; !in.at_end(); ++n) {
      REQUIRE(in.next());
      in.skip();
    }
    return n;
  }

  /// Closes the socket; come_back() opens it on the same address.
  void vanish() { socket_.close(); }
  void come_back() {
    CHECK(eventually(
      [&] {
        auto x = zeromq::bind_router(context_, address_, {});
        if (x)
          socket_ = std::move(*x);
        return static_cast<bool>(x);
      },
      2s));
  }

private:
  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string address_ = zeromq::bound_address(socket_);

public:
  client gateway;
};

infer small() {
  infer x;
  x.model = "m";
  x.inputs.push_back({"", floats({1, 4})});
  return x;
}

} // namespace

TEST_CASE("client: a request sent after the gateway returns is not affected by"
          " the lost connection") {
  listener at;
  at.vanish();
  at.come_back();
  uint64_t id = 0;
  REQUIRE(eventually(
    [&] {
      id = at.gateway.submit(small(), 60s);
      return at.next_frame() == 1;
    },
    5s));
  while (auto x = at.gateway.receive(200ms))
    CHECK(x->id != id);
}

TEST_CASE("client: requests on a lost connection are unavailable at once and"
          " the next request uses a new connection") {
  listener at;
  for (int i = 0; i < 3; ++i)
    at.gateway.submit(small(), 60s);
  CHECK(at.next_frame() == 1);
  auto begin = steady_now();
  at.vanish();
  for (uint64_t id = 1; id <= 3; ++id) {
    auto x = at.gateway.receive(5s);
    REQUIRE(x);
    CHECK(x->id == id);
    CHECK(x->reply.status == ec::unavailable);
    CHECK(x->reply.error.find("was lost") != std::string::npos);
  }
  CHECK(steady_now() - begin < 5s);
  CHECK(at.gateway.outstanding() == 0);
  CHECK(at.gateway.infer_one(small(), 100ms).status == ec::unavailable);
  at.come_back();
  CHECK(eventually(
    [&] {
      at.gateway.submit(small(), 100ms);
      at.gateway.receive(50ms);
      return at.next_frame() > 0;
    },
    10s));
}

TEST_CASE("client: only requests of a group share a frame") {
  listener at;
  at.gateway.submit(small());
  at.gateway.submit(small());
  CHECK(at.next_frame() == 1);
  CHECK(at.next_frame() == 1);
  {
    client::group outer{at.gateway};
    {
      client::group inner{at.gateway};
      for (int i = 0; i < 10; ++i)
        at.gateway.submit(small());
    }
    CHECK(at.next_frame() == 0);
  }
  CHECK(at.next_frame() == 10);
}

TEST_CASE("client: a group is sent when its frame is full or answers are"
          " requested or a request is cancelled") {
  listener at;
  client::group together{at.gateway};
  for (size_t i = 0; i < wire_limits::grouped + 3; ++i)
    at.gateway.submit(small());
  CHECK(at.next_frame() == wire_limits::grouped);
  CHECK_FALSE(at.gateway.receive(0us));
  CHECK(at.next_frame() == 3);
  auto id = at.gateway.submit(small());
  at.gateway.cancel(id);
  CHECK(at.next_frame() == 1);
  CHECK(at.next_frame() == 1);
}

TEST_CASE("client: a large request is sent alone at once and the refusal of an"
          " oversized request affects no other") {
  listener at;
  client::group together{at.gateway};
  at.gateway.submit(small());
  auto large = small();
  large.inputs[0].value = floats({100, 100});
  at.gateway.submit(large);
  CHECK(at.next_frame() == 1);
  auto impossible = small();
  impossible.model = std::string(5 << 20, 'm');
  auto id = at.gateway.submit(impossible);
  auto x = at.gateway.receive(1s);
  REQUIRE(x);
  CHECK(x->id == id);
  CHECK(x->reply.status == ec::too_large);
  CHECK(at.next_frame() == 1);
  CHECK(at.gateway.outstanding() == 2);
}
