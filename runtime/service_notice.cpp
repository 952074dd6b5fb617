// SPDX-License-Identifier: Apache-2.0
#include "runtime/service_notice.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>

#include "runtime/file_descriptor.hpp"
#include "runtime/text.hpp"

namespace millrace {

void notify_service(const std::string& lines) {
  auto* name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  auto length = name == nullptr ? 0 : std::strlen(name);
  if (length < 2 || length >= sizeof to.sun_path)
    return;
  std::memcpy(to.sun_path, name, length);
  if (to.sun_path[0] == '@') // in the abstract namespace
    to.sun_path[0] = 0;
  file_descriptor socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  static_cast<void>(
    ::sendto(socket.get(), lines.data(), lines.size(), MSG_NOSIGNAL,
             reinterpret_cast<sockaddr*>(&to),
             static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length)));
}

milliseconds watchdog_period() {
  auto* allowed = std::getenv("WATCHDOG_USEC");
  auto x = allowed == nullptr ? std::nullopt : number_in<uint64_t>(allowed);
  return milliseconds{x.value_or(0) / 2000};
}

} // namespace millrace
