// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <sstream>
#include <string>

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "runtime/file_descriptor.hpp"

namespace millrace::test {

inline sockaddr_in loopback(uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return out;
}

/// A TCP port that is free now.
inline uint16_t free_port() {
  file_descriptor fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  auto at = loopback(0);
  socklen_t size = sizeof at;
  REQUIRE(::bind(fd.get(), reinterpret_cast<sockaddr*>(&at), size) == 0);
  REQUIRE(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&at), &size)
          == 0);
  return ntohs(at.sin_port);
}

/// The response at a path with its headers; empty: no answer.
inline std::string http_get(uint16_t port, const std::string& path) {
  file_descriptor fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  auto to = loopback(port);
  auto ask = "GET " + path + " HTTP/1.0\r\n\r\n";
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0
      || ::send(fd.get(), ask.data(), ask.size(), MSG_NOSIGNAL) < 0)
    return {};
  std::string out;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::recv(fd.get(), buffer, sizeof buffer, 0)) > 0;)
    out.append(buffer, static_cast<size_t>(n));
  return out;
}

/// The sum of the series of a node with this name and a label such as
/// model="digits".
inline double metric(uint16_t port, const std::string& name,
                     const std::string& label) {
  std::istringstream all{http_get(port, "/metrics")};
  double out = 0;
  for (std::string line; std::getline(all, line);)
    if (line.starts_with(name + "{") && line.find(label) != std::string::npos)
      out += std::stod(line.substr(line.rfind(' ')));
  return out;
}

} // namespace millrace::test
