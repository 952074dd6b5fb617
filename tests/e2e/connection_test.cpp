// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/besieged.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::string_literals;

namespace {

/// n accepted connections.
std::vector<file_descriptor> guests(besieged& c, size_t n) {
  std::vector<file_descriptor> out;
  for (size_t i = 0; i < n; ++i) {
    out.push_back(connect_to(c.port()));
    REQUIRE(shake_hands(out.back()));
  }
  return out;
}

bool is_answered(const file_descriptor& x, uint64_t id, int64_t rows = 1) {
  auto there = [](const std::string& y) {
    return y.find("infer_reply") != y.npos;
  };
  return say(x, request_frame(id, rows)) && there(hear(x, there, 1s));
}

} // namespace

TEST_CASE("P12: a connection that is silent after its handshake is closed and"
          " other clients are served") {
  besieged c;
  auto silent = guests(c, 200);
  auto storm = c.ask_for(1s);
  CHECK(storm.good == storm.asked);
  CHECK(eventually(
    [&] { return std::all_of(silent.begin(), silent.end(), is_closed); }, 10s));
}

TEST_CASE("P12: a storm of clients that connect and send and leave does not"
          " disturb other clients") {
  besieged c;
  auto made = c.under(
    [&] {
      auto x = connect_to(c.port());
      if (shake_hands(x))
        say(x, request_frame(1));
      reset(std::move(x));
    },
    3s * times());
  MESSAGE(made << " clients");
  CHECK(made > 200);
}

TEST_CASE("P12: connections reset in the middle of a message do not disturb"
          " other clients") {
  besieged c;
  auto random = chance();
  auto whole = request_frame(1, 10'000);
  auto made = c.under(
    [&] {
      auto x = connect_to(c.port());
      if (shake_hands(x))
        say(x, whole.substr(0, random.below(whole.size())));
      reset(std::move(x));
    },
    3s * times());
  MESSAGE(made << " connections");
  CHECK(made > 200);
}

namespace {

/// Sends requests as fast as the node reads them, and reconnects after a loss.
class talker {
public:
  /// Returns the number of started requests.
  size_t talk(uint16_t port) {
    if (!connection_) {
      connection_ = connect_to(port);
      rest_.clear();
      if (!shake_hands(connection_))
        connection_ = file_descriptor{};
      return 0;
    }
    auto begins = rest_.empty();
    if (begins)
      rest_ = request_frame(1, 1000);
    auto n = ::send(connection_.get(), rest_.data(), rest_.size(),
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
      rest_.erase(0, static_cast<size_t>(n));
    else if (n < 0 && errno != EAGAIN)
      connection_ = file_descriptor{};
    return n > 0 && begins;
  }

  void read_a_byte() {
    char byte = 0;
    static_cast<void>(::recv(connection_.get(), &byte, 1, MSG_DONTWAIT));
  }

private:
  file_descriptor connection_;
  std::string rest_; ///< rest of the current request
};

} // namespace

TEST_CASE("P12: a client that reads nothing or one byte per second does not"
          " disturb other clients") {
  besieged c;
  std::vector<talker> deaf(20), slow(20);
  size_t said = 0;
  auto last = steady_now();
  c.under(
    [&] {
      for (auto* xs : {&deaf, &slow})
        for (auto& x : *xs)
          said += x.talk(c.port());
      if (steady_now() - last > 1s) {
        for (auto& x : slow)
          x.read_a_byte();
        last = steady_now();
      }
      ::usleep(20'000);
    },
    4s);
  MESSAGE(said << " requests");
  CHECK(said > 500);
}

TEST_CASE("P12: of two connections with one name only the first is served") {
  besieged c;
  auto first = connect_to(c.port());
  REQUIRE(shake_hands(first, "twin"));
  REQUIRE(is_answered(first, 1));
  auto second = connect_to(c.port());
  shake_hands(second, "twin");
  CHECK_FALSE(is_answered(second, 2));
  CHECK(is_answered(first, 3));
  auto quiet = c.ask_for(500ms);
  CHECK(quiet.good == quiet.asked);
}

TEST_CASE("P12: a second connection of a name that is full of requests and is"
          " reset does not end the node") {
  besieged c;
  auto first = connect_to(c.port());
  REQUIRE(shake_hands(first, "twin"));
  REQUIRE(is_answered(first, 1));
  for (int i = 0; i < 3; ++i) {
    auto second = connect_to(c.port());
    shake_hands(second, "twin");
    for (int k = 0; k < 300; ++k) // more than a socket buffer holds
      say(second, request_frame(2));
    ::usleep(200'000);
    reset(std::move(second));
    ::usleep(500'000);
  }
  CHECK(is_answered(first, 3));
  auto quiet = c.ask_for(500ms);
  CHECK(quiet.good == quiet.asked);
}

TEST_CASE("P12: a client with a name that begins with a zero byte is served") {
  besieged c;
  auto random = chance();
  for (auto& name : {"\0"s, "\0\0\0\0"s, "\0a name"s, std::string(200, '\0')}) {
    CAPTURE(name.size());
    auto x = connect_to(c.port());
    REQUIRE(shake_hands(x, name));
    CHECK(is_answered(x, 1));
  }
  // ZeroMQ gives names of this form to unnamed connections. One in 2^32 equals
  // the next such name.
  std::vector<file_descriptor> held;
  c.under(
    [&] {
      auto name = "\0"s;
      for (int i = 0; i < 4; ++i)
        name += static_cast<char>(random.next());
      held.push_back(connect_to(c.port()));
      shake_hands(held.back(), name);
      if (held.size() > 100)
        held.clear();
    },
    2s);
}

namespace {

/// A node that requires keys, and the key of a client.
class locked_node {
public:
  locked_node()
    : cluster_({{"all", "    roles: [gateway, controller, worker]\n"}},
               "  - {model: identity}\n", TEST_BUNDLES, "keys: keys\n") {
    make_key({"all", "--role", "controller"});
    make_key({"ops", "--role", "operator"});
    make_key({"app", "--role", "client"});
    cluster_.use_key(key("ops"), key("app"));
    cluster_.start_all();
    REQUIRE(cluster_.wait_ready());
  }

  std::string key(const std::string& name) const {
    return cluster_.folder() + "/keys/" + name + ".key";
  }

  std::string address() const { return cluster_.endpoint("all", "clients"); }
  std::string folder() const { return cluster_.folder(); }

  /// A connection without any data yet.
  file_descriptor knock() const {
    return connect_by(address().substr(strlen("ipc://")));
  }

  static file_descriptor connect_by(const std::string& path) {
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    REQUIRE(path.size() < sizeof to.sun_path);
    std::strcpy(to.sun_path, path.c_str());
    file_descriptor out{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    REQUIRE(::connect(out.get(), reinterpret_cast<sockaddr*>(&to), sizeof to)
            == 0);
    return out;
  }

  void check_serves() const {
    auto x = client::connect(address(), 5s, key("app"));
    REQUIRE(x);
    CHECK(x->infer_one(ask("identity", floats({1, 4})), 5s).status == ec::ok);
  }

private:
  void make_key(std::vector<std::string> words) {
    words.insert(words.begin(), {MILLRACE_PROGRAM, "keys", "new",
                                 cluster_.folder() + "/keys"});
    process p{words, cluster_.folder() + "/keys.log"};
    REQUIRE(p.wait() == 0);
  }

  live_cluster cluster_;
};

/// Forwards bytes between a client and a node in both directions and records
/// the bytes to the node.
class eavesdropper {
public:
  eavesdropper(const std::string& path, file_descriptor node)
    : node_(std::move(node)) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    std::strcpy(at.sun_path, path.c_str());
    door_ = file_descriptor{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    REQUIRE(::bind(door_.get(), reinterpret_cast<sockaddr*>(&at), sizeof at)
            == 0);
    REQUIRE(::listen(door_.get(), 1) == 0);
    thread_ = std::thread{[this] { pass_on(); }};
  }
  ~eavesdropper() {
    if (thread_.joinable())
      stop();
  }

  std::string stop() {
    going_ = false;
    thread_.join();
    return heard_;
  }

private:
  void pass_on() {
    file_descriptor client;
    while (going_) {
      pollfd xs[]{{client ? client.get() : door_.get(), POLLIN, 0},
                  {node_.get(), POLLIN, 0}};
      if (::poll(xs, 2, 20) <= 0)
        continue;
      if (!client)
        client = file_descriptor{::accept(door_.get(), nullptr, nullptr)};
      else if (xs[0].revents != 0)
        heard_ += copy(client, node_);
      if (xs[1].revents != 0)
        copy(node_, client);
    }
  }

  std::string copy(const file_descriptor& from, const file_descriptor& to) {
    char buf[4096];
    auto n = ::recv(from.get(), buf, sizeof buf, MSG_DONTWAIT);
    if (n <= 0)
      return going_ = false, std::string{};
    std::string text(buf, static_cast<size_t>(n));
    say(to, text);
    return text;
  }

  file_descriptor node_;
  file_descriptor door_;
  std::string heard_;
  std::atomic<bool> going_{true};
  std::thread thread_;
};

bool never(const std::string&) {
  return false;
}

} // namespace

TEST_CASE("P12: a node with keys accepts no other protocol") {
  locked_node c;
  auto curve = greeting();
  curve.replace(12, 5, "CURVE");
  auto plain = greeting();
  plain.replace(12, 5, "PLAIN");
  auto hello = "\x04\xc6\x05HELLO\x01\0"s + std::string(190, 'k');
  const std::pair<std::string, std::string> greetings[]{
    {"ZMTP 1.0", "\x01\0"s + '\x0a' + "\0message.."s},
    {"ZMTP 2.0", "\xff\0\0\0\0\0\0\0\x01\x7f\x01\x05\0\0"s + "\0\x02hi"s},
    {"ZMTP 3.0 without keys", greeting() + ready()},
    {"ZMTP 3.0, with a password", plain + "\x04\x0f\x05HELLO\x04user\x04pass"s},
    {"CURVE, and no handshake", curve + ready()},
    {"CURVE, of an invented key", curve + hello},
    {"ZMTP 4", greeting().replace(10, 1, "\x04")},
    {"HTTP", "GET / HTTP/1.1\r\nHost: millrace\r\n\r\n"},
    {"TLS",
     "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"s + std::string(200, 'r')},
  };
  for (auto& [name, text] : greetings) {
    INFO(name);
    auto x = c.knock();
    CHECK(say(x, text));
    auto begin = steady_now();
    auto said = hear(x, never, 6s);
    CHECK(steady_now() - begin < 5s); // the node closed the connection
    CHECK(said.find("READY") == std::string::npos);
    CHECK(said.find("infer_reply") == std::string::npos);
  }
  c.check_serves();
}

TEST_CASE("P12: a replayed handshake does not authenticate") {
  locked_node c;
  auto path = c.folder() + "/between";
  eavesdropper between{path, c.knock()};
  {
    auto x = client::connect("ipc://" + path, 5s, c.key("app"));
    REQUIRE(x);
    REQUIRE(x->infer_one(ask("identity", floats({1, 4})), 5s).status == ec::ok);
  }
  auto heard = between.stop();
  REQUIRE(heard.find("INITIATE") != std::string::npos);
  auto x = c.knock();
  auto initiate = heard.find("\x08INITIATE") - 2;
  auto is_welcome = [](const std::string& y) {
    return y.find("WELCOME") != y.npos;
  };
  CHECK(say(x, heard.substr(0, initiate)));
  CHECK(is_welcome(hear(x, is_welcome, 2s)));
  say(x, heard.substr(initiate));
  auto begin = steady_now();
  auto said = hear(x, never, 6s);
  CHECK(steady_now() - begin < 5s);
  CHECK(said.find("READY") == std::string::npos);
  CHECK(said.find("MESSAGE") == std::string::npos);
  c.check_serves();
}
