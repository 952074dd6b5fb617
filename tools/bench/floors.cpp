// SPDX-License-Identifier: Apache-2.0
#include "bench/floors.hpp"

#include <csignal>
#include <cstring>
#include <vector>

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "millrace/loopback.hpp"
#include "runtime/virtual/world.hpp"
#include "transport/zmq/socket.hpp"

namespace millrace {

namespace {

/// A child process that runs f; killed by the destructor, or when the parent
/// ends.
class floor_process {
public:
  template <class F>
  explicit floor_process(F f) : pid_(::fork()) {
    if (pid_ != 0)
      return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    f();
    ::_exit(0);
  }
  floor_process(const floor_process&) = delete;
  floor_process& operator=(const floor_process&) = delete;
  ~floor_process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

private:
  pid_t pid_;
};

class zeromq_floor : public echo_floor {
public:
  zeromq_floor(size_t bytes, const std::string& address)
    : server_([address] { serve(address); }),
      payload_(bytes, 'x') {
    client_ = zmq::socket_t{context_, zmq::socket_type::dealer};
    client_.set(zmq::sockopt::linger, 0);
    client_.set(zmq::sockopt::sndhwm, 100'000);
    client_.set(zmq::sockopt::rcvhwm, 100'000);
    client_.connect(address);
    round_trip(); // waits for the server
  }

  nanoseconds round_trip() override {
    auto begin = steady_now();
    send();
    receive();
    return steady_now() - begin;
  }

  double throughput(size_t window, microseconds length) override {
    auto begin = steady_now();
    size_t open = 0, done = 0;
    while (steady_now() - begin < length) {
      for (; open < window; ++open)
        send();
      receive();
      --open;
      ++done;
      zmq::message_t more;
      while (client_.recv(more, zmq::recv_flags::dontwait)) {
        --open;
        ++done;
      }
    }
    auto took = to_seconds(steady_now() - begin);
    for (; open > 0; --open)
      receive();
    return static_cast<double>(done) / took;
  }

private:
  static void serve(const std::string& address) {
    zmq::context_t context{1};
    zmq::socket_t router{context, zmq::socket_type::router};
    router.set(zmq::sockopt::sndhwm, 100'000);
    router.set(zmq::sockopt::rcvhwm, 100'000);
    router.bind(address);
    for (;;) {
      zmq::message_t id, body;
      static_cast<void>(router.recv(id));
      static_cast<void>(router.recv(body));
      router.send(id, zmq::send_flags::sndmore);
      router.send(body, zmq::send_flags::none);
    }
  }

  void send() {
    client_.send(zmq::message_t{payload_.data(), payload_.size()},
                 zmq::send_flags::none);
  }

  void receive() {
    zmq::message_t x;
    static_cast<void>(client_.recv(x));
  }

  floor_process server_;
  std::string payload_;
  zmq::context_t context_{1};
  zmq::socket_t client_;
};

bool write_all(int fd, const char* data, size_t n) {
  while (n > 0) {
    auto k = ::write(fd, data, n);
    if (k <= 0)
      return false;
    data += k;
    n -= static_cast<size_t>(k);
  }
  return true;
}

bool read_all(int fd, char* data, size_t n) {
  while (n > 0) {
    auto k = ::read(fd, data, n);
    if (k <= 0)
      return false;
    data += k;
    n -= static_cast<size_t>(k);
  }
  return true;
}

class tcp_floor : public echo_floor {
public:
  tcp_floor(size_t bytes, int listener, const sockaddr_in& address)
    : server_([bytes, listener] { serve(bytes, listener); }),
      buffer_(bytes, 'x'),
      fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    ::close(listener);
    ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    set_nodelay(fd_);
  }
  ~tcp_floor() override { ::close(fd_); }

  nanoseconds round_trip() override {
    auto begin = steady_now();
    write_all(fd_, buffer_.data(), buffer_.size());
    read_all(fd_, buffer_.data(), buffer_.size());
    return steady_now() - begin;
  }

  double throughput(size_t, microseconds length) override {
    auto begin = steady_now();
    size_t done = 0;
    for (; steady_now() - begin < length; ++done)
      round_trip();
    return static_cast<double>(done) / to_seconds(steady_now() - begin);
  }

  static void set_nodelay(int fd) {
    int one = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }

private:
  static void serve(size_t bytes, int listener) {
    auto fd = ::accept(listener, nullptr, nullptr);
    set_nodelay(fd);
    std::vector<char> buffer(bytes);
    while (read_all(fd, buffer.data(), bytes)
           && write_all(fd, buffer.data(), bytes)) {
    }
  }

  floor_process server_;
  std::vector<char> buffer_;
  int fd_;
};

/// Actors on CAF's deterministic coordinator that pass numbers to one another.
class passing_actors {
public:
  using sender =
    std::function<void(caf::event_based_actor*, const caf::actor&, uint64_t)>;

  explicit passing_actors(sender send)
    : system_(config_),
      scheduler_(
        dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler())),
      send_(std::move(send)) {
    scheduler_.clock().current_time = virtual_world::beginning;
    for (size_t i = 0; i < actors; ++i)
      all_.push_back(system_.spawn([this](caf::event_based_actor* self) {
        return caf::behavior{[this, self](uint64_t x) {
          if (left_-- > under_way)
            send_(self, all_[random_.below(actors)], x + 1);
        }};
      }));
  }
  ~passing_actors() {
    for (auto& x : all_)
      caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
    scheduler_.run();
  }

  caf::scheduler::test_coordinator& scheduler() { return scheduler_; }

  /// Messages per second; `run` runs all messages.
  template <class F>
  double rate(F run) {
    for (size_t i = 0; i < under_way; ++i)
      caf::anon_send(all_[i], uint64_t{1});
    auto begun = steady_now();
    run();
    return static_cast<double>(messages) / to_seconds(steady_now() - begun);
  }

private:
  static constexpr size_t actors = 1600, under_way = 1600;
  static constexpr size_t messages = 1'000'000;

  struct config : caf::actor_system_config {
    config() { set("scheduler.policy", caf::atom("testing")); }
  };

  config config_;
  caf::actor_system system_;
  caf::scheduler::test_coordinator& scheduler_;
  sender send_;
  random_stream random_{1};
  std::vector<caf::actor> all_;
  size_t left_ = messages;
};

} // namespace

result<std::unique_ptr<echo_floor>> make_zeromq_floor(size_t bytes) {
  auto address = free_address();
  if (!address)
    return address.failure();
  return std::unique_ptr<echo_floor>{
    std::make_unique<zeromq_floor>(bytes, *address)};
}

double bare_coordinator_rate() {
  passing_actors x{[](auto* self, auto& to, uint64_t n) { self->send(to, n); }};
  return x.rate([&] {
    while (x.scheduler().try_run_once()) {
    }
  });
}

double bare_clock_rate() {
  random_stream random{2};
  passing_actors x{[&](auto* self, auto& to, uint64_t n) {
    self->delayed_send(to, microseconds{1 + random.below(10'000)}, n);
  }};
  return x.rate([&] {
    do {
      while (x.scheduler().try_run_once()) {
      }
    } while (x.scheduler().trigger_timeout());
  });
}

result<std::unique_ptr<echo_floor>> make_tcp_floor(size_t bytes) {
  auto listener = listen_anywhere();
  if (!listener)
    return listener.failure();
  return std::unique_ptr<echo_floor>{
    std::make_unique<tcp_floor>(bytes, listener->first, listener->second)};
}

} // namespace millrace
