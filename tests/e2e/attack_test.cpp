// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>

#include "runtime/random.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/http.hpp"
#include "tests/support/live_cluster.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

const std::string bundles = TEST_BUNDLES;

timestamp now() {
  return std::chrono::steady_clock::now();
}

/// A connection on which nothing was said yet; it may still be coming about.
file_descriptor connect_to(uint16_t port) {
  file_descriptor out{
    ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  auto to = loopback(port);
  static_cast<void>(
    ::connect(out.get(), reinterpret_cast<sockaddr*>(&to), sizeof to));
  return out;
}

bool say(const file_descriptor& to, std::string_view text) {
  return ::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL)
         == static_cast<ssize_t>(text.size());
}

/// What a peer of ZMTP 3.0 without keys says first (rfc.zeromq.org/spec/23).
std::string greeting() {
  std::string out{"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0", 12};
  out += "NULL";
  out.resize(64);
  return out;
}

std::string ready() {
  using namespace std::string_literals;
  return "\x04\x1c\x05READY\x0bSocket-Type\0\0\0\x06"s + "DEALER";
}

/// A node whose clients come by TCP, and a client that asks it all the time.
class besieged {
public:
  besieged()
    : port_(free_port()),
      cluster_({{"all", "    roles: [gateway, controller, worker]\n"
                        "    tenants: {acme: 'tcp://127.0.0.1:"
                          + std::to_string(port_) + "'}\n"}},
               "  - {model: identity}\n", bundles) {
    cluster_.start_all();
    REQUIRE(cluster_.wait_ready());
    honest_.emplace(connect());
  }

  client connect() {
    auto x = client::connect("tcp://127.0.0.1:" + std::to_string(port_), 5s);
    REQUIRE(x);
    return std::move(*x);
  }

  struct round_trips {
    size_t asked = 0;
    size_t good = 0;
    microseconds p99{0};
  };

  /// Asks a hundred times a second.
  round_trips ask_for(microseconds length) {
    round_trips out;
    std::vector<microseconds> all;
    for (auto end = now() + length; now() < end; ::usleep(10'000)) {
      auto begin = now();
      ++out.asked;
      out.good += honest_->infer_one(ask("identity", floats({1, 4})), 5s).status
                  == ec::ok;
      all.push_back(to_us(now() - begin));
    }
    std::sort(all.begin(), all.end());
    out.p99 = all[all.size() * 99 / 100];
    return out;
  }

  /// Does something hostile, over and over, while the client goes on; returns
  /// how often.
  size_t under(const std::function<void()>& attack, microseconds length) {
    auto quiet = ask_for(2s);
    std::atomic<bool> going{true};
    size_t times = 0;
    std::thread attacker{[&] {
      for (; going; ++times)
        attack();
    }};
    auto storm = ask_for(length);
    going = false;
    attacker.join();
    MESSAGE("p99 in quiet " << format_duration(quiet.p99) << ", attacked "
                            << format_duration(storm.p99));
    CHECK(quiet.good == quiet.asked);
    CHECK(storm.good == storm.asked);
    // The promise is twice; the attacker takes one of two cores.
    CHECK(storm.p99 < std::max(microseconds{250ms}, 10 * quiet.p99));
    CHECK(connect().infer_one(ask("identity", floats({1, 4})), 5s).status
          == ec::ok);
    return times;
  }

  uint16_t port() const { return port_; }
  live_cluster& cluster() { return cluster_; }

private:
  uint16_t port_;
  live_cluster cluster_;
  std::optional<client> honest_;
};

std::string noise(random_stream& random, size_t most) {
  std::string out(1 + random.below(most), 0);
  for (auto& x : out)
    x = static_cast<char>(random.next());
  return out;
}

} // namespace

TEST_CASE("P12: connections that say garbage disturb nobody") {
  besieged c;
  random_stream random{1};
  auto times = c.under(
    [&] {
      auto x = connect_to(c.port());
      ::usleep(500);
      say(x, noise(random, 300));
    },
    3s);
  MESSAGE(times << " connections");
  CHECK(times > 500);
}

TEST_CASE("P12: handshakes that are broken off anywhere disturb nobody") {
  besieged c;
  random_stream random{2};
  auto whole = greeting() + ready();
  auto times = c.under(
    [&] {
      auto x = connect_to(c.port());
      ::usleep(500);
      say(x, whole.substr(0, random.below(whole.size())));
    },
    3s);
  MESSAGE(times << " connections");
  CHECK(times > 500);
}

TEST_CASE("P12: a flood of messages that are none disturbs nobody") {
  besieged c;
  random_stream random{3};
  file_descriptor x;
  auto again = [&] {
    x = connect_to(c.port());
    ::usleep(2000);
    say(x, greeting() + ready());
  };
  size_t connections = 0;
  auto times = c.under(
    [&] {
      auto body = noise(random, 100);
      // One short frame; now and then one that claims to be of 2^62 bytes.
      auto frame = random.below(1000) == 0
                     ? std::string{"\x02\x40\0\0\0\0\0\0\0", 9}
                     : std::string{'\0', static_cast<char>(body.size())} + body;
      if (!say(x, frame)) {
        again();
        ++connections;
      }
      ::usleep(100);
    },
    3s);
  MESSAGE(times << " messages on " << connections << " connections");
  CHECK(times > 2000);
}

TEST_CASE("P12: thousands of silent connections keep no new client out") {
  raise_file_limit();
  besieged c;
  std::vector<file_descriptor> silent;
  for (size_t i = 0; i < 5000; ++i)
    silent.push_back(connect_to(c.port()));
  auto begin = now();
  auto fresh = c.connect();
  CHECK(fresh.infer_one(ask("identity", floats({1, 4})), 10s).status == ec::ok);
  auto took = now() - begin;
  MESSAGE("let in after " << format_duration(to_us(took)));
  CHECK(took < 2s);
}

TEST_CASE(
  "P12: a node that may open no more files serves who is there, and lets"
  " others in again when the silent ones are shut out") {
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
  auto begin = now();
  CHECK(eventually(
    [&] {
      auto address = "tcp://127.0.0.1:" + std::to_string(c.port());
      return static_cast<bool>(client::connect(address, 2s));
    },
    60s));
  MESSAGE("let in after " << format_duration(to_us(now() - begin)));
}

TEST_CASE("P12: who says one byte a second is not waited for") {
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
  // A handshake may take a second: by now they are shut out.
  ::usleep(500'000);
  auto closed = std::count_if(slow.begin(), slow.end(), [](auto& x) {
    char byte = 0;
    auto n = ::recv(x.get(), &byte, 1, MSG_DONTWAIT);
    while (n > 0)
      n = ::recv(x.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || errno != EAGAIN;
  });
  CHECK(closed == 50);
}
