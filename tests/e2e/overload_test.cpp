// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>

#include "tests/support/builders.hpp"
#include "tests/support/live_cluster.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

const std::string bundles = TEST_BUNDLES;

const std::string emulated =
  "    roles: [worker]\n    devices:\n      - type: emulated\n"
  "        emulate: {load: 10ms, per_batch: 5ms, per_row: 1ms}\n";

/// Physical memory of a process, in bytes.
int64_t resident(pid_t pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/statm"};
  int64_t size = 0, pages = 0;
  in >> size >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

} // namespace

TEST_CASE("P9: at three times the capacity goodput stays, and refusals are"
          " quick") {
  // Devices so slow that two cores have time for all of it; the figures under
  // load are "I27: ..." on the virtual clock.
  auto nodes =
    apart("    roles: [worker]\n    devices:\n      - type: emulated\n"
          "        emulate: {load: 10ms, per_batch: 20ms,"
          " per_row: 4ms}\n");
  live_cluster c{nodes,
                 "  - {model: identity, replicas: 2, policy: {batch: 8, queue:"
                 " 64}}\n",
                 bundles};
  auto gateway = c.start_and_meet();
  auto request = ask("identity", floats({1, 4}));
  auto now = [] { return std::chrono::steady_clock::now(); };
  struct outcome {
    size_t good = 0;
    size_t refused = 0;
    size_t other = 0;
    microseconds slowest_refusal{0};
  };
  // Submits at a rate for 3 s.
  auto offer = [&](double rate) {
    outcome out;
    std::unordered_map<uint64_t, timestamp> open;
    auto take = [&](microseconds longest) {
      auto x = gateway.receive(longest);
      if (!x)
        return;
      auto took = to_us(now() - open[x->id]);
      open.erase(x->id);
      if (x->reply.status == ec::ok)
        ++out.good;
      else if (x->reply.status == ec::overloaded)
        ++out.refused,
          out.slowest_refusal = std::max(out.slowest_refusal, took);
      else
        ++out.other;
    };
    auto begin = now();
    auto total = static_cast<int>(3 * rate);
    for (int i = 0; i < total; ++i) {
      auto due = begin + microseconds{static_cast<int64_t>(i * 1e6 / rate)};
      while (now() < due)
        take(std::max(microseconds{1}, to_us(due - now())));
      open.emplace(gateway.submit(request, 1s), now());
    }
    while (!open.empty())
      take(1s);
    return out;
  };
  // Two devices that take 20 ms + 4 ms a row: 8 rows every 52 ms each.
  constexpr double capacity = 2 * 8 / 0.052;
  auto calm = offer(0.6 * capacity);
  auto storm = offer(3 * capacity);
  // Other work on the machine may stand in the way once.
  if (storm.good < 0.75 * 3 * capacity || storm.slowest_refusal >= 1s) {
    MESSAGE("first try: " << storm.good << " good, slowest refusal "
                          << format_duration(storm.slowest_refusal));
    storm = offer(3 * capacity);
  }
  MESSAGE("of a capacity of " << capacity << "/s in 3 s: calm " << calm.good
                              << ", storm " << storm.good << "; refused "
                              << storm.refused << ", late or otherwise "
                              << storm.other << ", slowest refusal "
                              << format_duration(storm.slowest_refusal));
  CHECK(calm.good > 0.95 * 3 * 0.6 * capacity);
  CHECK(storm.good > 0.75 * 3 * capacity);
  CHECK(storm.refused > 0);
  CHECK(storm.slowest_refusal < 1s);
}

TEST_CASE("P10: what a client does not read is not kept for it without end") {
  live_cluster c{
    {{"all", "    roles: [gateway, controller, worker]\n"}},
    "  - {model: identity, policy: {batch: 4096}}\n"
    "gateway: {max_client_bytes: 32MiB, max_client_unread_bytes: 8MiB}\n",
    bundles};
  auto polite = c.start_and_meet();
  zmq::context_t context;
  zeromq::socket_options options;
  options.receive_limit = 1;
  auto rude = zeromq::make_dealer(context, {}, options);
  REQUIRE(zeromq::connect(rude, c.endpoint("all", "clients")));
  auto now = std::chrono::steady_clock::now();
  auto x =
    make_wire_message(ask("identity", floats({25'000, 4})), now, nullptr);
  auto before = resident(c["all"].pid());
  for (x.head.id = 1; x.head.id <= 600; ++x.head.id)
    REQUIRE(eventually([&] { return zeromq::send(rude, {}, x, now); }, 5s));
  int64_t grown = 0;
  for (int i = 0; i < 150; ++i) {
    ::usleep(20'000);
    grown = std::max(grown, resident(c["all"].pid()) - before);
  }
  CHECK(polite.infer_one(ask("identity", floats({1, 4}))).status == ec::ok);
  MESSAGE("600 answers of 400 KB are not read: "
          << format_bytes(static_cast<uint64_t>(grown)) << " more");
  CHECK(grown < (32 + 8 + 64) << 20);
}

TEST_CASE("P10: a thousand clients that never read cost what the config allows"
          " them") {
  constexpr size_t rude = 1000, each = 20, budget = 128 << 20;
  raise_file_limit();
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity, policy: {batch: 4096}}\n"
                 "gateway: {max_bytes: 64MiB, max_unread_bytes: 64MiB}\n",
                 bundles};
  auto polite = c.start_and_meet();
  zmq::context_t context;
  context.set(zmq::ctxopt::max_sockets, static_cast<int>(rude + 10));
  zeromq::socket_options options;
  options.receive_limit = 1;
  std::vector<zmq::socket_t> sockets;
  auto alone = resident(c["all"].pid());
  for (size_t i = 0; i < rude; ++i) {
    sockets.push_back(zeromq::make_dealer(context, {}, options));
    REQUIRE(zeromq::connect(sockets.back(), c.endpoint("all", "clients")));
  }
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto x = make_wire_message(ask("identity", floats({1, 4})), now(), nullptr);
  for (auto& socket : sockets)
    REQUIRE(eventually([&] { return zeromq::send(socket, {}, x, now()); }, 5s));
  ::usleep(500'000); // until all are let in and answered
  auto before = resident(c["all"].pid());
  MESSAGE("a connection costs "
          << format_bytes(static_cast<uint64_t>(before - alone) / rude));
  int64_t grown = 0;
  x = make_wire_message(ask("identity", floats({4'000, 4})), now(), nullptr);
  for (x.head.id = 1; x.head.id <= each; ++x.head.id) {
    for (auto& socket : sockets)
      REQUIRE(
        eventually([&] { return zeromq::send(socket, {}, x, now()); }, 5s));
    // What waits in ZeroMQ to be read is counted in no budget.
    CHECK(polite.infer_one(ask("identity", floats({1, 4}))).status == ec::ok);
    grown = std::max(grown, resident(c["all"].pid()) - before);
  }
  for (int i = 0; i < 50; ++i) {
    ::usleep(20'000);
    grown = std::max(grown, resident(c["all"].pid()) - before);
  }
  CHECK(polite.infer_one(ask("identity", floats({1, 4}))).status == ec::ok);
  MESSAGE((rude * each) << " answers of 64 KB are not read: "
                        << format_bytes(static_cast<uint64_t>(grown))
                        << " more");
  // An allocator keeps a part of what was given back.
  CHECK(grown < static_cast<int64_t>(budget) * 3 / 2 + (64 << 20));
}
