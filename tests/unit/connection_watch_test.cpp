// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/eventually.hpp"
#include "transport/zmq/connection_watch.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace millrace::zeromq;

namespace {

/// A watched ROUTER socket, and a way to connect to it.
struct entrance {
  zmq::context_t context;
  zmq::socket_t router =
    std::move(*bind_router(context, "tcp://127.0.0.1:*", {}));
  connection_watch watch{context, router};

  ~entrance() { watch.stop(); }

  zmq::socket_t come(const std::string& name) {
    auto out = make_dealer(context, name, {});
    REQUIRE(connect(out, bound_address(router)));
    out.send(zmq::str_buffer("hello"), zmq::send_flags::none);
    return out;
  }

  frame_list next() {
    frame_list out;
    REQUIRE(eventually([&] { return receive(router, out); }, 5s));
    return out;
  }

  void note(frame_list message) {
    watch.saw(message[0].to_string(), message[1], steady_now());
  }

  bool has_left(const std::string& name) {
    watch.look(steady_now());
    return watch.take_left() == std::vector{name};
  }
};

} // namespace

TEST_CASE(
  "connection_watch: a connection that sent a message has left when it ends") {
  entrance x;
  {
    auto a = x.come("a"), b = x.come("b");
    x.note(x.next());
    x.note(x.next());
    CHECK(x.watch.size() == 2);
    CHECK(x.watch.take_left().empty());
    b.close();
    CHECK(eventually([&] { return x.has_left("b"); }, 5s));
    CHECK(x.watch.size() == 1);
  }
  CHECK(eventually([&] { return x.has_left("a"); }, 5s));
}

TEST_CASE("connection_watch: a connection that ended before its message was "
          "read has left") {
  entrance x;
  x.come("a").close();
  auto message = x.next(); // so it was connected
  CHECK(eventually(
    [&] {
      x.watch.look(steady_now());
      return x.watch.open() == 0;
    },
    5s));
  x.note(std::move(message));
  CHECK(x.watch.take_left() == std::vector<std::string>{"a"});
  CHECK(x.watch.size() == 0);
}

TEST_CASE("connection_watch: a connection without a message is ended after the "
          "patience and others are not") {
  entrance x;
  auto a = x.come("a");
  x.note(x.next());
  auto silent = make_dealer(x.context, "silent", {});
  REQUIRE(connect(silent, bound_address(x.router)));
  auto now = steady_now();
  CHECK(eventually(
    [&] {
      x.watch.look(now);
      return x.watch.open() == 2;
    },
    5s));
  x.watch.end_silent(now + connection_watch::patience - 1ms);
  auto b = x.come("b"); // its arrival proves that earlier events were handled
  x.note(x.next());
  CHECK(x.watch.open() == 3);
  x.watch.end_silent(now + connection_watch::patience);
  CHECK(eventually(
    [&] {
      x.watch.look(now);
      return x.watch.open() == 2;
    },
    5s));
  CHECK(x.watch.size() == 2);
  CHECK(x.watch.take_left().empty());
}

TEST_CASE("sockets: a host name is bound by its number and an unknown one is "
          "refused by name") {
  zmq::context_t context;
  auto bound = bind_router(context, "tcp://localhost:*", {});
  REQUIRE(bound);
  CHECK(bound_address(*bound).starts_with("tcp://127.0.0.1:"));
  auto unknown = bind_router(context, "tcp://no-such-host.invalid:7100", {});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.failure().text.find("'no-such-host.invalid'")
        != std::string::npos);
}
