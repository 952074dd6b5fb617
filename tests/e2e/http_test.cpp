// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "runtime/http_server.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/http.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr size_t answer_size = 64 << 20;

std::unique_ptr<http_server> serve(http_limits limits = {}) {
  auto out = http_server::listen(
    "127.0.0.1:0",
    {{"/livez",
      [] {
        return http_answer{200, "text/plain", "alive\n"};
      }},
     {"/metrics",
      [] {
        return http_answer{200, "text/plain", std::string(answer_size, 'x')};
      }}},
    limits);
  REQUIRE(out);
  return std::move(*out);
}

/// A client that has sent the beginning of a request.
file_descriptor begin_request(uint16_t port, const std::string& text) {
  file_descriptor out{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  auto to = loopback(port);
  REQUIRE(::connect(out.get(), reinterpret_cast<sockaddr*>(&to), sizeof to)
          == 0);
  ::send(out.get(), text.data(), text.size(), MSG_NOSIGNAL);
  return out;
}

bool add_header(const file_descriptor& to) {
  constexpr std::string_view line = "X-More: y\r\n";
  return ::send(to.get(), line.data(), line.size(), MSG_NOSIGNAL) > 0;
}

/// Returns true if the server closed the connection, with or without unread
/// bytes.
bool is_closed(const file_descriptor& x) {
  char buffer[4096];
  ssize_t n = 0;
  while ((n = ::recv(x.get(), buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
    ;
  return n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

} // namespace

TEST_CASE("http_server: probes are answered while clients send slow header"
          " lines") {
  auto server = serve();
  std::vector<file_descriptor> slow;
  for (int i = 0; i < 200; ++i)
    slow.push_back(begin_request(server->port(), "GET /livez HTTP/1.1\r\n"));
  for (int round = 0; round < 10; ++round) {
    for (auto& x : slow)
      add_header(x);
    auto before = steady_now();
    auto answer = http_get(server->port(), "/livez");
    CHECK(answer.find("alive") != std::string::npos);
    CHECK(steady_now() - before < 1s);
    std::this_thread::sleep_for(50ms);
  }
}

TEST_CASE("http_server: a request that does not arrive in time is dropped even"
          " if its lines keep coming") {
  auto server = serve({64, 300ms, 30s});
  auto begun = steady_now();
  auto slow = begin_request(server->port(), "GET /livez HTTP/1.1\r\n");
  while (!is_closed(slow) && steady_now() - begun < 10s) {
    add_header(slow);
    std::this_thread::sleep_for(20ms);
  }
  CHECK(steady_now() - begun >= 300ms);
  CHECK(steady_now() - begun < 3s);
}

TEST_CASE("http_server: an answer to a client that does not read is dropped") {
  auto server = serve({64, 30s, 300ms});
  auto idle = begin_request(server->port(), "GET /metrics HTTP/1.1\r\n"
                                            "Host: x\r\n\r\n");
  std::this_thread::sleep_for(1s);
  // The bytes in the kernel buffers can be read. The rest is not sent.
  size_t read = 0;
  std::vector<char> buffer(size_t{1} << 20);
  for (ssize_t n = 0;
       (n = ::recv(idle.get(), buffer.data(), buffer.size(), 0)) > 0;)
    read += static_cast<size_t>(n);
  CHECK(read < answer_size);
}

TEST_CASE("http_server: at the connection limit the oldest connection is closed"
          " for a new one") {
  auto server = serve({2, 30s, 30s});
  auto first = begin_request(server->port(), "GET /livez HTTP/1.1\r\n");
  auto second = begin_request(server->port(), "GET /livez HTTP/1.1\r\n");
  CHECK(http_get(server->port(), "/livez").find("alive") != std::string::npos);
  CHECK(eventually([&] { return is_closed(first); }, 10s));
  CHECK_FALSE(is_closed(second));
}

TEST_CASE("http_server: HEAD is answered like GET without the body") {
  auto server = serve();
  auto asked =
    begin_request(server->port(), "HEAD /livez HTTP/1.1\r\nHost: x\r\n"
                                  "Connection: close\r\n\r\n");
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(asked.get(), buffer, sizeof buffer, 0)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  CHECK(text.starts_with("HTTP/1.1 200"));
  CHECK(text.find("Content-Length: 6\r\n") != std::string::npos);
  CHECK(text.find("alive") == std::string::npos);
}
