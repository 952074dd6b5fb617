// SPDX-License-Identifier: Apache-2.0
#include "bench/shaped_hosts.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/file_descriptor.hpp"
#include "runtime/units.hpp"

namespace millrace {

namespace {

constexpr size_t part_bytes = 1u << 20;
constexpr uint16_t port = 5001;

/// Runs a function in a child process on a host; exit status 0 if the function
/// returns true.
pid_t on_host(size_t host, const std::function<bool()>& f) {
  auto pid = ::fork();
  if (pid != 0)
    return pid;
  file_descriptor space{::open(space_of(host).c_str(), O_RDONLY | O_CLOEXEC)};
  ::_exit(::setns(space.get(), CLONE_NEWNET) == 0 && f() ? 0 : 1);
}

bool has_ended_well(pid_t x) {
  int status = 0;
  return ::waitpid(x, &status, 0) == x && status == 0;
}

sockaddr_in socket_address(size_t host) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  ::inet_pton(AF_INET, address_of(host).c_str(), &out.sin_addr);
  return out;
}

/// Accepts the first connection to this host, where the caller runs.
file_descriptor accept_on(size_t host) {
  auto at = socket_address(host);
  file_descriptor door{::socket(AF_INET, SOCK_STREAM, 0)};
  int yes = 1;
  ::setsockopt(door.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(door.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) != 0
      || ::listen(door.get(), 1) != 0)
    return file_descriptor{};
  return file_descriptor{::accept(door.get(), nullptr, nullptr)};
}

/// Connects to a host; retries for a second until the host listens.
file_descriptor connect_to_host(size_t host) {
  auto to = socket_address(host);
  for (int i = 0; i < 100; ++i, ::poll(nullptr, 0, 10)) {
    file_descriptor out{::socket(AF_INET, SOCK_STREAM, 0)};
    if (::connect(out.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0)
      return out;
  }
  return file_descriptor{};
}

/// Sends this number of bytes to another host.
bool send_to(size_t host, uint64_t bytes) {
  auto out = connect_to_host(host);
  std::vector<char> part(part_bytes, 'x');
  for (auto left = bytes; left > 0;) {
    auto n =
      ::write(out.get(), part.data(), std::min<uint64_t>(left, part.size()));
    if (n <= 0)
      return false;
    left -= static_cast<uint64_t>(n);
  }
  return true;
}

/// The seconds to receive this number of bytes; negative on failure.
double receive_on(size_t host, uint64_t bytes) {
  auto in = accept_on(host);
  std::vector<char> part(part_bytes);
  auto begin = steady_now();
  uint64_t got = 0;
  for (ssize_t n = 0; (n = ::read(in.get(), part.data(), part.size())) > 0;)
    got += static_cast<uint64_t>(n);
  return got == bytes ? to_seconds(steady_now() - begin) : -1;
}

/// Forwards bytes through a pipe with splice(2), without copies.
bool splice_on(size_t host, size_t next, uint64_t bytes) {
  auto in = accept_on(host), out = connect_to_host(next);
  int ends[2];
  if (!in || !out || ::pipe2(ends, O_CLOEXEC) != 0)
    return false;
  file_descriptor pipe_out{ends[0]}, pipe_in{ends[1]};
  for (auto left = bytes; left > 0;) {
    auto n = ::splice(in.get(), nullptr, pipe_in.get(), nullptr, part_bytes,
                      SPLICE_F_MOVE | SPLICE_F_MORE);
    if (n <= 0)
      return false;
    left -= static_cast<uint64_t>(n);
    while (n > 0) {
      auto m = ::splice(pipe_out.get(), nullptr, out.get(), nullptr,
                        static_cast<size_t>(n), SPLICE_F_MOVE | SPLICE_F_MORE);
      if (m <= 0)
        return false;
      n -= m;
    }
  }
  return true;
}

double own_processor_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& x) {
    return static_cast<double>(x.tv_sec)
           + 1e-6 * static_cast<double>(x.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// A pipe for a figure from a process on another host.
class answer_pipe {
public:
  answer_pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) == 0) {
      out_ = file_descriptor{ends[0]};
      in_ = file_descriptor{ends[1]};
    }
  }
  bool put(double x) const {
    return ::write(in_.get(), &x, sizeof x) == sizeof x;
  }
  result<double> get() const {
    double x = 0;
    if (::read(out_.get(), &x, sizeof x) == sizeof x)
      return x;
    return error{ec::unavailable, "no answer from another host", {}};
  }

private:
  file_descriptor out_, in_;
};

error no_connection() {
  return {ec::unavailable, "no plain connection between hosts", {}};
}

} // namespace

std::string space_of(size_t host) {
  return "/run/netns/mrb" + std::to_string(host);
}

std::string address_of(size_t host) {
  return "10.77.0." + std::to_string(host + 1);
}

result<std::unique_ptr<shaped_hosts>>
shaped_hosts::make(const std::string& script, size_t count, uint64_t mbit) {
  std::error_code failed;
  if (!std::filesystem::exists(script, failed))
    return error{ec::unavailable,
                 "--script " + script
                   + ": there is no such file (tests/bench/shaped_hosts of the"
                     " project's folder makes the hosts)",
                 {}};
  std::unique_ptr<shaped_hosts> out{new shaped_hosts{script}};
  auto command =
    script + " up " + std::to_string(count) + " " + std::to_string(mbit);
  if (std::system(command.c_str()) != 0)
    return error{ec::unavailable,
                 script + " made no hosts: it needs root, and iproute2",
                 {}};
  return out;
}

shaped_hosts::~shaped_hosts() {
  if (std::system((script_ + " down").c_str()) != 0)
    return; // the script has printed the reason
}

result<double> plain_rate(uint64_t bytes) {
  answer_pipe found;
  auto receiver = on_host(1, [&] {
    auto took = receive_on(1, bytes);
    return took > 0 && found.put(static_cast<double>(bytes) / took);
  });
  auto sender = on_host(0, [&] { return send_to(1, bytes); });
  auto sent = has_ended_well(sender);
  auto got = has_ended_well(receiver);
  return sent && got ? found.get() : no_connection();
}

result<double> plain_relay_cost(uint64_t bytes) {
  answer_pipe found;
  auto receiver = on_host(2, [&] { return receive_on(2, bytes) > 0; });
  auto relay = on_host(1, [&] {
    auto before = own_processor_seconds();
    return splice_on(1, 2, bytes)
           && found.put((own_processor_seconds() - before)
                        / static_cast<double>(bytes));
  });
  auto sender = on_host(0, [&] { return send_to(1, bytes); });
  auto sent = has_ended_well(sender);
  auto passed = has_ended_well(relay);
  auto got = has_ended_well(receiver);
  return sent && passed && got ? found.get() : no_connection();
}

} // namespace millrace
