// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// A real node under attack by TCP, and the messages of attackers: raw
/// connections and handmade ZMTP.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <functional>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>

#include "runtime/random.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/http.hpp"
#include "tests/support/live_cluster.hpp"

namespace millrace::test {

/// A connection without any data yet. The connect may still be in progress.
inline file_descriptor connect_to(uint16_t port) {
  file_descriptor out{
    ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  auto to = loopback(port);
  static_cast<void>(
    ::connect(out.get(), reinterpret_cast<sockaddr*>(&to), sizeof to));
  return out;
}

inline bool say(const file_descriptor& to, std::string_view text) {
  return ::send(to.get(), text.data(), text.size(), MSG_NOSIGNAL)
         == static_cast<ssize_t>(text.size());
}

/// The first bytes of a ZMTP 3.0 peer without keys (rfc.zeromq.org/spec/23).
inline std::string greeting() {
  std::string out{"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0", 12};
  out += "NULL";
  out.resize(64);
  return out;
}

/// The READY command, which follows the greeting. A name must differ from the
/// names of other connections.
inline std::string ready(const std::string& name = {}) {
  using namespace std::string_literals;
  auto body = "\x05READY\x0bSocket-Type\0\0\0\x06"s + "DEALER";
  if (!name.empty())
    body += "\x08Identity\0\0\0"s + static_cast<char>(name.size()) + name;
  return "\x04"s + static_cast<char>(body.size()) + body;
}

/// Receives until `until` holds for all received bytes, the peer closes the
/// connection, or `longest` has passed.
template <class F>
std::string hear(const file_descriptor& from, F until, microseconds longest) {
  std::string out;
  char buf[4096];
  for (auto end = steady_now() + longest; steady_now() < end && !until(out);) {
    pollfd x{from.get(), POLLIN, 0};
    if (::poll(&x, 1, 20) <= 0)
      continue;
    auto n = ::recv(from.get(), buf, sizeof buf, MSG_DONTWAIT);
    if (n <= 0)
      break;
    out.append(buf, static_cast<size_t>(n));
  }
  return out;
}

/// Sends the handshake and waits for the handshake of the peer, after which
/// messages can be sent. Returns false if the peer refuses the connection.
inline bool shake_hands(const file_descriptor& with,
                        const std::string& name = {}) {
  auto has_ready = [](const std::string& x) {
    return x.find("READY") != x.npos;
  };
  ::usleep(1000);
  return say(with, greeting() + ready(name))
         && has_ready(hear(with, has_ready, 2s));
}

/// A ZMTP frame; the last frame of a message unless `more` is set.
inline std::string zmtp_frame(const std::string& body, bool more = false) {
  std::string out{static_cast<char>(2 + more)};
  for (int i = 7; i >= 0; --i)
    out += static_cast<char>(body.size() >> (8 * i));
  return out + body;
}

/// A request for "identity", in one frame.
inline std::string request_frame(uint64_t id, int64_t rows = 1) {
  frame_writer out;
  header head;
  head.id = id;
  head.left = {steady_now() + 10s};
  auto x = ask("identity", floats({rows, 4}));
  out.add(head, x, steady_now());
  auto frames = out.take();
  auto text = zmtp_frame(std::string{frames.first.text()}, !frames.raw.empty());
  for (size_t i = 0; i < frames.raw.size(); ++i)
    text +=
      zmtp_frame(std::string{frames.raw[i].text()}, i + 1 < frames.raw.size());
  return text;
}

/// Resets a connection (RST), even in the middle of a message.
inline void reset(file_descriptor x) {
  linger none{1, 0};
  ::setsockopt(x.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

/// Returns true if the peer has closed the connection.
inline bool is_closed(const file_descriptor& x) {
  char buf[4096];
  ssize_t n = 0;
  do
    n = ::recv(x.get(), buf, sizeof buf, MSG_DONTWAIT);
  while (n > 0);
  return n == 0 || errno != EAGAIN;
}

/// A node that accepts clients by TCP, and an honest client that sends requests
/// during an attack.
class besieged {
public:
  besieged()
    : port_(free_port()),
      cluster_({{"all", "    roles: [gateway, controller, worker]\n"
                        "    tenants: {acme: 'tcp://127.0.0.1:"
                          + std::to_string(port_) + "'}\n"}},
               "  - {model: identity}\n", TEST_BUNDLES) {
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

  /// Sends 100 requests per second.
  round_trips ask_for(microseconds length) {
    round_trips out;
    std::vector<microseconds> all;
    for (auto end = steady_now() + length; steady_now() < end;
         ::usleep(10'000)) {
      auto begin = steady_now();
      ++out.asked;
      out.good += honest_->infer_one(ask("identity", floats({1, 4})), 5s).status
                  == ec::ok;
      all.push_back(to_us(steady_now() - begin));
    }
    std::sort(all.begin(), all.end());
    out.p99 = all[all.size() * 99 / 100];
    return out;
  }

  /// Repeats an attack while the honest client sends requests. Returns the
  /// number of repetitions.
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
    // The design allows a factor of 2. Here the attacker also uses one of two
    // cores.
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

inline std::string noise(random_stream& random, size_t most) {
  std::string out(1 + random.below(most), 0);
  for (auto& x : out)
    x = static_cast<char>(random.next());
  return out;
}

} // namespace millrace::test
