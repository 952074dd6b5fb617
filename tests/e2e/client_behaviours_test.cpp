// SPDX-License-Identifier: Apache-2.0

/// \file
/// Tests of the C++ client for the behaviours of both clients. The table in
/// python_client_test.py names these tests.

#include <doctest/doctest.h>

#include <thread>

#include "client/client.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/echo_gateway.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

client connected_to(const std::string& address) {
  auto x = client::connect(address, 20s);
  REQUIRE(x);
  return std::move(*x);
}

/// More requests of 64 KiB than fit into the send buffer and the TCP buffers.
constexpr size_t fill = 1400;
infer chunk() {
  return ask("m", floats({64, 256}));
}

infer row(const std::string& model = "m") {
  return ask(model, floats({1, 4}));
}

/// Waits for the answer to one of several open requests.
infer_reply answer_to(client& x, uint64_t id,
                      std::map<uint64_t, infer_reply>& others) {
  while (!others.contains(id))
    if (auto y = x.receive(60s))
      others.emplace(y->id, std::move(y->reply));
  return others.at(id);
}

bool has(const infer_reply& x, std::string_view text) {
  return x.status == ec::unavailable && x.error.find(text) != x.error.npos;
}

const std::map<std::string, std::string> one_node{
  {"all", "    roles: [gateway, controller, worker]\n"}};
constexpr auto three_models =
  "  - {model: affine}\n  - {model: identity}\n  - {model: picky}\n";

} // namespace

TEST_CASE("client: inputs by name and in a list and of 3 MB give the outputs of"
          " the model") {
  live_cluster c{one_node, three_models, bundles};
  auto gateway = c.start_and_meet(3);
  for (auto name : {"x", ""}) {
    auto x = ask("affine", floats({2, 4}));
    x.inputs[0].name = name;
    auto y = gateway.infer_one(x);
    REQUIRE(y.status == ec::ok);
    CHECK(y.model == "affine");
    CHECK(y.version == 1);
    CHECK(y.total > 0us);
    CHECK(values_of(y.outputs.at(0).value)
          == std::vector<float>{24, 58, 48, 146});
  }
  auto large = floats({200'000, 4});
  auto y = gateway.infer_one(ask("identity", large));
  REQUIRE(y.status == ec::ok);
  CHECK(values_of(y.outputs.at(0).value) == values_of(large));
}

TEST_CASE("client: a tensor without axes keeps its shape and value in both"
          " directions") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  auto y = x.infer_one(ask("m", floats({}, 3)));
  REQUIRE(y.status == ec::ok);
  CHECK(y.outputs.at(0).value.extents.rank() == 0);
  CHECK(values_of(y.outputs[0].value) == std::vector<float>{3});
  auto seen = gateway.messages();
  CHECK(seen.at(0).request.inputs.at(0).value.extents.rank() == 0);
}

TEST_CASE("client: models are described with their inputs") {
  live_cluster c{one_node, three_models, bundles};
  auto gateway = c.start_and_meet(3);
  auto models = gateway.models();
  REQUIRE(models);
  REQUIRE(models->size() == 3);
  for (auto& m : *models)
    if (m.model == "affine")
      CHECK(to_string(m.signature.inputs.at(0)) == "x:F32[-1, 4]");
}

TEST_CASE("client: a failed request has a status and a text") {
  live_cluster c{one_node, three_models, bundles};
  auto gateway = c.start_and_meet(3);
  struct row {
    infer request;
    microseconds deadline;
    ec status;
    std::string text;
  };
  for (auto& x :
       {row{ask("affine", floats({1, 5})), 30s, ec::bad_request,
            "expected x:F32[-1, 4]"},
        row{ask("nothing", floats({1, 4})), 30s, ec::unknown_model, "nothing"},
        row{ask("affine", floats({1, 4})), 0s, ec::deadline_exceeded, ""},
        row{ask("picky", floats({1, 4}, 1000)), 30s, ec::internal,
            "a number above 100"}}) {
    CAPTURE(x.text);
    auto y = gateway.infer_one(x.request, x.deadline);
    CHECK(y.status == x.status);
    CHECK(y.error.find(x.text) != y.error.npos);
  }
}

TEST_CASE("client: a request with times out of range or a tensor over 256 MiB"
          " is not sent") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  CHECK(x.infer_one(row(), -1s).status == ec::bad_request);
  CHECK(x.infer_one(row(), microseconds::max()).status == ec::bad_request);
  auto slow = row();
  slow.latency = -1us;
  CHECK(x.infer_one(slow).status == ec::bad_request);
  auto long_one = tensor::zeros(dtype::u8, {(256 << 20) + 1});
  REQUIRE(long_one);
  CHECK(x.infer_one(ask("m", *long_one)).status == ec::too_large);
  CHECK(x.infer_one(row()).status == ec::ok);
  CHECK(gateway.messages().size() == 1);
}

TEST_CASE("client: a gateway receives the cancel of an open request and none of"
          " an unsent or settled request") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  auto id = x.submit(row("silent"), 60s);
  CHECK(eventually([&] { return gateway.count("infer") == 1; }, 5s));
  x.cancel(id);
  CHECK(eventually([&] { return gateway.count("cancel") == 1; }, 5s));
  CHECK(gateway.messages().back().head.id == id);
  auto settled = x.submit(row(), 60s);
  auto y = x.receive(10s);
  REQUIRE(y);
  CHECK(y->id == settled);
  x.cancel(settled);
  gateway.stop();
  CHECK(eventually([&] { return bool(x.receive(0us)); }, 10s)); // it was lost
  auto unsent = x.submit(row(), 60s);
  x.cancel(unsent);
  y = x.receive(0us);
  REQUIRE(y);
  CHECK(y->id == unsent);
  CHECK(y->reply.status == ec::cancelled);
  CHECK(gateway.count("cancel") == 1);
}

TEST_CASE("client: open and later requests on a closed client are"
          " unavailable") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  auto open = x.submit(row("silent"), 60s);
  x.close();
  auto y = x.receive(0us);
  REQUIRE(y);
  CHECK(y->id == open);
  CHECK(has(y->reply, "closed"));
  CHECK(has(x.infer_one(row()), "closed"));
  auto models = x.models();
  REQUIRE_FALSE(models);
  CHECK(models.failure().text.find("closed") != std::string::npos);
  x.cancel(open);
  CHECK_FALSE(x.receive(10s));
}

TEST_CASE("client: a connect without a listener times out and an invalid"
          " address is refused") {
  auto begin = steady_now();
  auto x = client::connect("ipc:///tmp/millrace-no-gateway", 200ms);
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::unavailable);
  CHECK(x.failure().text.find("no answer from") != std::string::npos);
  CHECK(steady_now() - begin < 5s);
  auto y = client::connect("nowhere", 200ms);
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::bad_config);
}

TEST_CASE("client: a connection that is closed at once is tried again") {
  late_gateway gateway{500ms};
  auto x = connected_to(gateway.address());
  CHECK(x.infer_one(row(), 20s).status == ec::ok);
}

TEST_CASE("client: a request waits for the new connection and is answered") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  gateway.stop();
  ::usleep(300'000); // until the socket has noticed
  std::thread later{[&] {
    ::usleep(500'000);
    gateway.start();
  }};
  CHECK(x.infer_one(row(), 20s).status == ec::ok);
  later.join();
  {
    client::group together{x};
    gateway.stop();
    ::usleep(300'000);
    for (int i = 0; i < 3; ++i)
      x.submit(row(), 20s);
  }
  gateway.start();
  for (int i = 0; i < 3; ++i) {
    auto y = x.receive(20s);
    REQUIRE(y);
    CHECK(y->reply.status == ec::ok);
  }
}

TEST_CASE("client: a request without a gateway is unavailable at its deadline"
          " because it was not sent") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  gateway.stop();
  CHECK(eventually(
    [&] {
      auto begin = steady_now();
      auto y = x.infer_one(row(), 400ms);
      return has(y, "no gateway could be reached")
             && steady_now() - begin > 350ms && steady_now() - begin < 5s;
    },
    20s));
  auto models = x.models(100ms);
  REQUIRE_FALSE(models);
  CHECK(models.failure().text.find("not sent in time") != std::string::npos);
}

TEST_CASE("client: a connection that a proxy has forgotten is replaced after"
          " one timeout") {
  echo_gateway gateway;
  forgetful_proxy proxy{gateway.address()};
  auto x = connected_to(proxy.address());
  CHECK(x.infer_one(row()).status == ec::ok);
  proxy.forget();
  auto brief = x.submit(row(), 1s);
  auto patient = x.submit(row(), 60s);
  std::map<uint64_t, infer_reply> answers;
  CHECK(has(answer_to(x, brief, answers), "no answer"));
  CHECK(has(answer_to(x, patient, answers), "was lost"));
  for (int i = 0; i < 3; ++i)
    CHECK(x.infer_one(row(), 20s).status == ec::ok);
  CHECK(proxy.made() == 2);
}

TEST_CASE("client: a connection on which one request times out and others are"
          " answered is kept") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  auto late = x.submit(row("silent"), 1200ms);
  auto held = x.submit(row("held"), 60s);
  std::map<uint64_t, infer_reply> answers;
  for (auto until = steady_now() + 1600ms; steady_now() < until;) {
    CHECK(answer_to(x, x.submit(row(), 20s), answers).status == ec::ok);
    ::usleep(20'000);
  }
  CHECK(has(answer_to(x, late, answers), "no answer"));
  gateway.release();
  CHECK(answer_to(x, held, answers).status == ec::ok);
  CHECK(gateway.connections() == 1);
}

TEST_CASE("client: requests wait for space in the send buffer and are sent with"
          " less time left") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  gateway.slow_down(1ms);
  for (size_t i = 0; i < fill; ++i)
    x.submit(chunk(), 60s);
  size_t good = 0;
  while (auto y = x.outstanding() > 0 ? x.receive(60s) : x.receive(0us))
    good += y->reply.status == ec::ok;
  CHECK(good == fill);
  CHECK(gateway.connections() == 1);
  auto least = 60'000'000us;
  for (auto& y : gateway.messages())
    least = std::min(least, y.left);
  CHECK(least < 59'800'000us);
}

TEST_CASE("client: a request without space in the send buffer until its"
          " deadline is unavailable because it was not sent") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  gateway.stop_reading();
  uint64_t last = 0;
  for (size_t i = 0; i < fill; ++i)
    last = x.submit(chunk(), 400ms);
  auto begin = steady_now();
  std::map<uint64_t, infer_reply> answers;
  auto y = answer_to(x, last, answers);
  CHECK(has(y, "the send buffer"));
  CHECK(steady_now() - begin > 200ms);
}

TEST_CASE("client: at most 100000 unsent requests wait") {
  echo_gateway gateway;
  auto x = connected_to(gateway.address());
  gateway.stop();
  ::usleep(300'000); // until the socket has noticed
  auto request = row();
  for (size_t i = 0; i <= unsent_frames::requests_max; ++i)
    x.submit(request, 60s);
  auto y = x.receive(0us);
  REQUIRE(y);
  CHECK(y->id == unsent_frames::requests_max + 1);
  CHECK(has(y->reply, "100000 others wait"));
  CHECK_FALSE(x.receive(0us));
}

TEST_CASE("client: sockets have TCP keepalive and TCP_MAXRT and no ZMTP"
          " heartbeat") {
  zmq::context_t context;
  auto x =
    zeromq::make_dealer(context, {}, zeromq::socket_options::of_client());
  CHECK(x.get(zmq::sockopt::tcp_keepalive) == 1);
  CHECK(x.get(zmq::sockopt::tcp_keepalive_idle) == 1);
  CHECK(x.get(zmq::sockopt::tcp_keepalive_intvl) == 1);
  CHECK(x.get(zmq::sockopt::tcp_maxrt) == 5000);
  CHECK(x.get(zmq::sockopt::heartbeat_ivl) == 0);
}
