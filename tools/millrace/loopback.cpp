// SPDX-License-Identifier: Apache-2.0
#include "millrace/loopback.hpp"

#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <unistd.h>

namespace millrace {

result<std::pair<int, sockaddr_in>> listen_anywhere() {
  auto fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), size) != 0
      || ::listen(fd, 1) != 0
      || ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return error{
      ec::unavailable, std::string{"no TCP port: "} + std::strerror(errno), {}};
  return std::pair{fd, address};
}

result<std::string> free_address() {
  auto x = listen_anywhere();
  if (!x)
    return x.failure();
  ::close(x->first);
  return "tcp://127.0.0.1:" + std::to_string(ntohs(x->second.sin_port));
}

} // namespace millrace
