// SPDX-License-Identifier: Apache-2.0
#include "tests/support/echo_gateway.hpp"

#include <poll.h>

#include "runtime/text.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/http.hpp"

namespace millrace::test {

namespace {

uint16_t port_of(const std::string& address) {
  return *number_in<uint16_t>(address.substr(address.rfind(':') + 1));
}

file_descriptor listen_on(uint16_t port) {
  file_descriptor out{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int yes = 1;
  ::setsockopt(out.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  auto at = loopback(port);
  REQUIRE(::bind(out.get(), reinterpret_cast<sockaddr*>(&at), sizeof at) == 0);
  REQUIRE(::listen(out.get(), 16) == 0);
  return out;
}

bool is_readable(const file_descriptor& x, int milliseconds) {
  pollfd at{x.get(), POLLIN, 0};
  return ::poll(&at, 1, milliseconds) > 0;
}

} // namespace

echo_gateway::echo_gateway(std::string address) : address_(std::move(address)) {
  start();
}

void echo_gateway::start() {
  zeromq::socket_options options;
  options.receive_limit = 1;
  REQUIRE(eventually( // an earlier socket may still hold the address
    [&] {
      auto x = zeromq::bind_router(context_, address_, options);
      if (x)
        socket_ = std::move(*x);
      return static_cast<bool>(x);
    },
    5s));
  socket_.set(zmq::sockopt::linger, 0);
  address_ = zeromq::bound_address(socket_);
  going_ = true;
  thread_ = std::thread{[this] { serve(); }};
}

void echo_gateway::stop() {
  if (!going_.exchange(false))
    return;
  thread_.join();
  socket_.close();
  held_.clear();
}

std::vector<echo_gateway::message> echo_gateway::messages() const {
  std::lock_guard guard{mutex_};
  return messages_;
}

size_t echo_gateway::count(std::string_view type) const {
  size_t n = 0;
  for (auto& x : messages())
    n += x.head.t == type;
  return n;
}

size_t echo_gateway::connections() const {
  std::set<std::string> out;
  for (auto& x : messages())
    out.insert(x.connection);
  return out.size();
}

void echo_gateway::serve() {
  while (going_) {
    if (released_)
      for (auto& [to, answer] : std::exchange(held_, {}))
        zeromq::send(socket_, to, answer);
    zeromq::frame_list frames;
    if (!reading_ || !zeromq::receive(socket_, frames)) {
      ::usleep(2'000);
      continue;
    }
    handle(frames);
    if (auto pause = pause_.load(); pause > 0us)
      ::usleep(static_cast<useconds_t>(pause.count()));
  }
}

void echo_gateway::handle(zeromq::frame_list& frames) {
  auto raw = *zeromq::take_raw(frames, 2);
  auto now = steady_now();
  frame_reader in{zeromq::view(frames.at(1)), raw, now};
  while (!in.at_end() && in.next()) {
    message x{
      in.head(), to_us(in.head().left.at - now), frames[0].to_string(), {}};
    frame_writer out;
    header head;
    head.id = x.head.id;
    if (x.head.t == infer::record_name()) {
      if (!in.read(x.request))
        continue;
      infer_reply reply;
      reply.status = ec::ok;
      reply.outputs = x.request.inputs;
      out.add(head, reply);
    } else {
      in.skip();
      if (x.head.t == describe_models::record_name())
        out.add(head, model_list_reply{});
    }
    auto answer = out.take();
    auto model = x.request.model;
    auto to = x.connection;
    { // count before the answer, because a test may wait for the answer
      std::lock_guard guard{mutex_};
      messages_.push_back(std::move(x));
    }
    if (model == "held")
      held_.emplace_back(to, answer);
    else if (model != "silent" && answer.first.size() > 0)
      zeromq::send(socket_, to, answer);
  }
}

// -----------------------------------------------------------------------------

forgetful_proxy::forgetful_proxy(const std::string& gateway)
  : to_(port_of(gateway)) {
  auto port = free_port();
  listener_ = listen_on(port);
  address_ = "tcp://127.0.0.1:" + std::to_string(port);
  thread_ = std::thread{[this] { run(); }};
}

forgetful_proxy::~forgetful_proxy() {
  going_ = false;
  thread_.join();
}

void forgetful_proxy::run() {
  while (going_) {
    if (is_readable(listener_, 1)) {
      pair x{file_descriptor{::accept(listener_.get(), nullptr, nullptr)},
             file_descriptor{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)}};
      auto to = loopback(to_);
      if (::connect(x.gateway.get(), reinterpret_cast<sockaddr*>(&to),
                    sizeof to)
          == 0) {
        pairs_.push_back(std::move(x));
        ++made_;
      }
    }
    for (size_t i = 0; i < pairs_.size(); ++i)
      for (auto from_client : {true, false})
        forward(pairs_[i], from_client, i < forgotten_);
  }
}

void forgetful_proxy::forward(pair& x, bool from_client, bool dropped) {
  auto& from = from_client ? x.client : x.gateway;
  auto& to = from_client ? x.gateway : x.client;
  if (!from || !is_readable(from, 0))
    return;
  char buffer[65'536];
  auto n = ::recv(from.get(), buffer, sizeof buffer, 0);
  if (n <= 0)
    from = file_descriptor{};
  else if (!dropped && to)
    ::send(to.get(), buffer, static_cast<size_t>(n), MSG_NOSIGNAL);
}

// -----------------------------------------------------------------------------

late_gateway::late_gateway(microseconds cut_off_for)
  : port_(free_port()),
    address_("tcp://127.0.0.1:" + std::to_string(port_)) {
  thread_ =
    std::thread{[this, cut_off_for, listener = listen_on(port_)]() mutable {
      for (auto until = steady_now() + cut_off_for; steady_now() < until;)
        if (is_readable(listener, 10))
          file_descriptor{::accept(listener.get(), nullptr, nullptr)};
      listener = file_descriptor{};
      gateway_.emplace(address_);
    }};
}

} // namespace millrace::test
