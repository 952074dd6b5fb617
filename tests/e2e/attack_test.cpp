// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/besieged.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P12: connections that send garbage do not disturb clients") {
  besieged c;
  auto random = chance();
  auto made = c.under(
    [&] {
      auto x = connect_to(c.port());
      ::usleep(500);
      say(x, noise(random, 300));
    },
    3s * times());
  MESSAGE(made << " connections");
  CHECK(made > 500);
}

TEST_CASE("P12: handshakes broken off at any byte do not disturb clients") {
  besieged c;
  auto random = chance();
  auto whole = greeting() + ready();
  auto made = c.under(
    [&] {
      auto x = connect_to(c.port());
      ::usleep(500);
      say(x, whole.substr(0, random.below(whole.size())));
    },
    3s * times());
  MESSAGE(made << " connections");
  CHECK(made > 500);
}

TEST_CASE("P12: a flood of malformed messages does not disturb clients") {
  besieged c;
  auto random = chance();
  file_descriptor x;
  auto again = [&] {
    x = connect_to(c.port());
    shake_hands(x);
  };
  size_t connections = 0;
  auto made = c.under(
    [&] {
      auto body = noise(random, 100);
      // One short frame. One in 1000 claims a length of 2^62 bytes.
      auto frame = random.below(1000) == 0
                     ? std::string{"\x02\x40\0\0\0\0\0\0\0", 9}
                     : std::string{'\0', static_cast<char>(body.size())} + body;
      if (!say(x, frame)) {
        again();
        ++connections;
      }
      ::usleep(100);
    },
    3s * times());
  MESSAGE(made << " messages on " << connections << " connections");
  CHECK(made > 2000);
}

TEST_CASE("P12: thousands of silent connections do not block a new client") {
  raise_file_limit();
  besieged c;
  std::vector<file_descriptor> silent;
  for (size_t i = 0; i < 5000; ++i)
    silent.push_back(connect_to(c.port()));
  auto begin = steady_now();
  auto fresh = c.connect();
  CHECK(fresh.infer_one(ask("identity", floats({1, 4})), 10s).status == ec::ok);
  auto took = steady_now() - begin;
  MESSAGE("let in after " << format_duration(to_us(took)));
  CHECK(took < 2s);
}

TEST_CASE("P12: a node at its file limit serves its clients and accepts others"
          " again when silent connections are closed") {
  raise_file_limit();
  constexpr rlim_t files = 256;
  besieged c;
  rlimit theirs{files, files};
  REQUIRE(::prlimit(c.cluster()["all"].pid(), RLIMIT_NOFILE, &theirs, nullptr)
          == 0);
  std::vector<file_descriptor> silent;
  for (size_t i = 0; i < 10 * files; ++i)
    silent.push_back(connect_to(c.port()));
  auto storm = c.ask_for(1s);
  CHECK(storm.good == storm.asked);
  auto begin = steady_now();
  CHECK(eventually(
    [&] {
      auto address = "tcp://127.0.0.1:" + std::to_string(c.port());
      return static_cast<bool>(client::connect(address, 2s));
    },
    20s));
  MESSAGE("let in after " << format_duration(to_us(steady_now() - begin)));
}

TEST_CASE("P12: a connection that sends one byte per second is closed") {
  besieged c;
  auto whole = greeting();
  std::vector<file_descriptor> slow;
  for (int i = 0; i < 50; ++i)
    slow.push_back(connect_to(c.port()));
  for (size_t second = 0; second < 3; ++second) {
    for (auto& x : slow)
      say(x, whole.substr(second, 1));
    auto y = c.ask_for(1s);
    CHECK(y.good == y.asked);
  }
  // A handshake may take 1 s, so the node has closed the connections by now.
  ::usleep(500'000);
  CHECK(std::count_if(slow.begin(), slow.end(), is_closed) == 50);
}
