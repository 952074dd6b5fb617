// SPDX-License-Identifier: Apache-2.0
#include "runtime/http_server.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>

#include <microhttpd.h>

#include "runtime/text.hpp"

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

class microhttpd_server : public http_server {
public:
  explicit microhttpd_server(std::map<std::string, handler> routes)
    : routes_(std::move(routes)) {}

  ~microhttpd_server() override {
    if (daemon_ != nullptr)
      MHD_stop_daemon(daemon_);
  }

  bool start(const sockaddr_in& address) {
    daemon_ = MHD_start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL, 0, nullptr, nullptr,
      &on_request, this, MHD_OPTION_SOCK_ADDR, &address,
      MHD_OPTION_CONNECTION_LIMIT, 64u, MHD_OPTION_CONNECTION_TIMEOUT, 5u,
      MHD_OPTION_THREAD_STACK_SIZE, size_t{1} << 20, MHD_OPTION_END);
    return daemon_ != nullptr;
  }

  uint16_t port() const override {
    return MHD_get_daemon_info(daemon_, MHD_DAEMON_INFO_BIND_PORT)->port;
  }

private:
  static MHD_Result on_request(void* self, MHD_Connection* connection,
                               const char* url, const char* method, const char*,
                               const char*, size_t* body_size, void**) {
    if (*body_size != 0) // nothing here takes a body: read it away
      return *body_size = 0, MHD_YES;
    auto answer = static_cast<microhttpd_server*>(self)->answer_to(method, url);
    auto* response = MHD_create_response_from_buffer(
      answer.body.size(), answer.body.data(), MHD_RESPMEM_MUST_COPY);
    MHD_add_response_header(response, "Content-Type",
                            answer.content_type.c_str());
    auto sent = MHD_queue_response(connection, answer.status, response);
    MHD_destroy_response(response);
    return sent;
  }

  http_answer answer_to(const char* method, const char* url) {
    if (std::strcmp(method, "GET") != 0)
      return {405, "text/plain", "only GET is answered\n"};
    if (auto i = routes_.find(url); i != routes_.end())
      return i->second();
    return {404, "text/plain", "no such page\n"};
  }

  std::map<std::string, handler> routes_;
  MHD_Daemon* daemon_ = nullptr;
};

} // namespace

result<std::unique_ptr<http_server>>
http_server::listen(const std::string& address,
                    std::map<std::string, handler> routes) {
  auto parsed = parse_address(address);
  if (!parsed)
    return parsed.failure();
  auto server = std::make_unique<microhttpd_server>(std::move(routes));
  if (!server->start(*parsed))
    return error{ec::bad_config,
                 "http address '" + address
                   + "' cannot be bound: " + std::strerror(errno)};
  return std::unique_ptr<http_server>{std::move(server)};
}

} // namespace millrace
