// SPDX-License-Identifier: Apache-2.0
#include "runtime/http_server.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <optional>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "runtime/file_descriptor.hpp"
#include "runtime/text.hpp"
#include "runtime/worker_thread.hpp"

namespace millrace {

namespace {

result<sockaddr_in> parse_address(const std::string& text) {
  auto refuse = [&](const char* why) {
    return error{ec::bad_config, "http address '" + text + "' " + why
                                   + " (expected like 127.0.0.1:9100)"};
  };
  auto colon = text.rfind(':');
  if (colon == std::string::npos)
    return refuse("has no port");
  auto port = number_in<uint16_t>(std::string_view{text}.substr(colon + 1));
  if (!port)
    return refuse("has no port between 0 and 65535");
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(*port);
  auto host = text.substr(0, colon);
  if (host == "localhost")
    host = "127.0.0.1";
  if (::inet_pton(AF_INET, host.c_str(), &out.sin_addr) != 1)
    return refuse("has no IPv4 address");
  return out;
}

/// Runs libmicrohttpd in our own loop. The library's timeout restarts with each
/// byte, so a client that sends a header line per second would never time out.
class microhttpd_server : public http_server {
public:
  microhttpd_server(std::map<std::string, handler> routes, http_limits limits)
    : routes_(std::move(routes)),
      limits_(limits),
      stop_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~microhttpd_server() override {
    ::eventfd_write(stop_.get(), 1);
    loop_.reset();
    if (daemon_ != nullptr)
      MHD_stop_daemon(daemon_);
  }

  bool start(const sockaddr_in& address) {
    // The library makes new connections wait at its limit; our lower limit
    // closes an old connection instead.
    auto accepted_max =
      static_cast<unsigned>(limits_.connections_max + accepted_at_once);
    daemon_ = MHD_start_daemon(
      MHD_USE_EPOLL, 0, nullptr, nullptr, &on_request, this,
      MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_CONNECTION_LIMIT, accepted_max,
      MHD_OPTION_NOTIFY_CONNECTION, &on_connection, this,
      MHD_OPTION_NOTIFY_COMPLETED, &on_completed, this, MHD_OPTION_END);
    if (daemon_ == nullptr)
      return false;
    loop_.emplace("http");
    loop_->post([this] { run(); });
    return true;
  }

  uint16_t port() const override {
    return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port;
  }

private:
  /// Above the number of connections that the library accepts in one step.
  static constexpr size_t accepted_at_once = 64;

  struct connection {
    int socket = -1;
    timestamp since; ///< when the current request or answer started
    timestamp due;   ///< when the server closes the connection
    bool closing = false;
  };

  void run() {
    std::array<pollfd, 2> on{
      pollfd{MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
             POLLIN, 0},
      pollfd{stop_.get(), POLLIN, 0}};
    while (on[1].revents == 0) {
      ::poll(on.data(), on.size(), wait_max());
      MHD_run(daemon_);
      close_overdue();
    }
  }

  /// Milliseconds until the library or a connection has a timeout; -1: no
  /// timeout.
  int wait_max() const {
    auto due = far_future;
    for (auto& [handle, x] : connections_)
      due = std::min(due, x.due);
    std::optional<int64_t> out;
    if (due != far_future)
      out = std::chrono::ceil<milliseconds>(due - steady_now()).count();
    MHD_UNSIGNED_LONG_LONG of_library = 0;
    if (MHD_get_timeout(daemon_, &of_library) == MHD_YES)
      out =
        std::min(out.value_or(INT_MAX),
                 static_cast<int64_t>(std::min<uint64_t>(of_library, INT_MAX)));
    return out ? static_cast<int>(std::max<int64_t>(*out, 0)) : -1;
  }

  void close_overdue() {
    for (auto& [handle, x] : connections_)
      if (x.due <= steady_now())
        close(x);
  }

  /// Shuts the socket down; the library then reads end-of-file and drops the
  /// connection.
  static void close(connection& x) {
    x.due = far_future;
    x.closing = true;
    ::shutdown(x.socket, SHUT_RDWR);
  }

  void make_room() {
    connection* oldest = nullptr;
    size_t open = 0;
    for (auto& [handle, x] : connections_)
      if (!x.closing) {
        ++open;
        if (oldest == nullptr || x.since < oldest->since)
          oldest = &x;
      }
    if (open >= limits_.connections_max)
      close(*oldest);
  }

  void expect(MHD_Connection* handle, milliseconds within) {
    auto i = connections_.find(handle);
    if (i == connections_.end() || i->second.closing)
      return;
    i->second.since = steady_now();
    i->second.due = i->second.since + within;
  }

  static void on_connection(void* self, MHD_Connection* handle, void**,
                            MHD_ConnectionNotificationCode what) {
    auto& me = *static_cast<microhttpd_server*>(self);
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
      me.connections_.erase(handle);
      return;
    }
    me.make_room();
    auto* info =
      MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD);
    me.connections_[handle].socket = info->connect_fd;
    me.expect(handle, me.limits_.request_max);
  }

  static void on_completed(void* self, MHD_Connection* handle, void**,
                           MHD_RequestTerminationCode) {
    auto& me = *static_cast<microhttpd_server*>(self);
    me.expect(handle, me.limits_.request_max);
  }

  static MHD_Result on_request(void* self, MHD_Connection* handle,
                               const char* url, const char* method, const char*,
                               const char*, size_t* body_size, void**) {
    if (*body_size != 0) // no path takes a body: discard it
      return *body_size = 0, MHD_YES;
    auto& me = *static_cast<microhttpd_server*>(self);
    me.expect(handle, me.limits_.answer_max);
    auto answer = me.answer_to(method, url);
    answer.body = printable(answer.body);
    auto* response = MHD_create_response_from_buffer(
      answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type",
                            answer.content_type.c_str());
    auto sent = MHD_queue_response(handle, answer.status, response);
    MHD_destroy_response(response);
    return sent;
  }

  /// For HEAD the library omits the body.
  http_answer answer_to(const char* method, const char* url) {
    if (std::strcmp(method, "GET") != 0 && std::strcmp(method, "HEAD") != 0)
      return {405, "text/plain", "only GET and HEAD are answered\n"};
    if (auto i = routes_.find(url); i != routes_.end())
      return i->second();
    return {404, "text/plain", "no such page\n"};
  }

  const std::map<std::string, handler> routes_;
  const http_limits limits_;
  const file_descriptor stop_;
  MHD_Daemon* daemon_ = nullptr;
  std::map<MHD_Connection*, connection> connections_; ///< of the loop's thread
  std::optional<worker_thread> loop_;
};

} // namespace

result<std::unique_ptr<http_server>>
http_server::listen(const std::string& address,
                    std::map<std::string, handler> routes, http_limits limits) {
  auto parsed = parse_address(address);
  if (!parsed)
    return parsed.failure();
  auto server = std::make_unique<microhttpd_server>(std::move(routes), limits);
  if (!server->start(*parsed))
    return error{ec::bad_config,
                 "http address '" + address
                   + "' cannot be bound: " + std::strerror(errno)};
  return std::unique_ptr<http_server>{std::move(server)};
}

} // namespace millrace
