// SPDX-License-Identifier: Apache-2.0
#include "runtime/records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace millrace {

namespace {

/// Files with one record: a bundle, weights, and a connection for each lane.
constexpr size_t most_files = 250;

void keep_files(msghdr& message, std::vector<file_descriptor>& out) {
  for (auto* x = CMSG_FIRSTHDR(&message); x != nullptr;
       x = CMSG_NXTHDR(&message, x)) {
    if (x->cmsg_level != SOL_SOCKET || x->cmsg_type != SCM_RIGHTS)
      continue;
    auto n = (x->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < n; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(x) + i * sizeof fd, sizeof fd);
      out.emplace_back(fd);
    }
  }
}

/// Waits for one of these events (poll(2)); false at time `until`.
bool wait_for(const file_descriptor& x, short events, timestamp until) {
  for (;;) {
    timespec left{};
    if (until != far_future) {
      auto wait = std::max(nanoseconds{0}, until - steady_now());
      left = {wait.count() / 1'000'000'000, wait.count() % 1'000'000'000};
    }
    pollfd one{x.get(), events, 0};
    auto n = ::ppoll(&one, 1, until == far_future ? nullptr : &left, nullptr);
    if (n > 0)
      return true;
    if (n == 0 || errno != EINTR)
      return false;
  }
}

} // namespace

bool wait_for(const file_descriptor& file, timestamp until) {
  return wait_for(file, POLLIN, until);
}

result<std::pair<file_descriptor, file_descriptor>> make_connection() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return error{ec::unavailable, std::string{"cannot make a connection: "}
                                    + std::strerror(errno)};
  return std::pair{file_descriptor{ends[0]}, file_descriptor{ends[1]}};
}

bool send_record(const file_descriptor& to, const_bytes record,
                 std::span<const int> files, timestamp until) {
  MILLRACE_ASSERT(files.size() <= most_files);
  alignas(cmsghdr) char control[CMSG_SPACE(most_files * sizeof(int))] = {};
  iovec part{const_cast<std::byte*>(record.data()), record.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(files.size_bytes());
    auto* x = CMSG_FIRSTHDR(&message);
    x->cmsg_level = SOL_SOCKET;
    x->cmsg_type = SCM_RIGHTS;
    x->cmsg_len = CMSG_LEN(files.size_bytes());
    std::memcpy(CMSG_DATA(x), files.data(), files.size_bytes());
  }
  ssize_t n = 0;
  do
    n = ::sendmsg(to.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (
    n < 0
    && (errno == EINTR || (errno == EAGAIN && wait_for(to, POLLOUT, until))));
  return n == static_cast<ssize_t>(record.size());
}

received receive_record(const file_descriptor& from, std::span<std::byte> into,
                        timestamp until, std::vector<file_descriptor>* files) {
  if (until != far_future && !wait_for(from, until))
    return received::nothing;
  alignas(cmsghdr) char control[CMSG_SPACE(most_files * sizeof(int))];
  iovec part{into.data(), into.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (files != nullptr) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  ssize_t n = 0;
  do
    n = ::recvmsg(from.get(), &message, MSG_CMSG_CLOEXEC);
  while (n < 0 && errno == EINTR);
  if (files != nullptr && n >= 0)
    keep_files(message, *files);
  auto whole = n == static_cast<ssize_t>(into.size())
               && (message.msg_flags & MSG_TRUNC) == 0;
  return whole ? received::record : received::ended;
}

} // namespace millrace
