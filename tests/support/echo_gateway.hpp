// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/file_descriptor.hpp"
#include "transport/messages/all.hpp"
#include "transport/zmq/socket.hpp"

namespace millrace::test {

/// A gateway in a separate thread that answers each request with its own
/// inputs. Model "silent" gets no answer, and model "held" is answered after
/// release().
class echo_gateway {
public:
  struct message {
    header head;
    microseconds left{0}; ///< time left on arrival
    std::string connection;
    infer request;
  };

  explicit echo_gateway(std::string address = "tcp://127.0.0.1:*");
  ~echo_gateway() { stop(); }

  const std::string& address() const { return address_; }

  /// Listens on the same address as before.
  void start();
  /// Ends all connections.
  void stop();

  void release() { released_ = true; }
  void stop_reading() { reading_ = false; }
  /// Sets the pause after each message.
  void slow_down(microseconds pause) { pause_ = pause; }

  std::vector<message> messages() const;
  size_t count(std::string_view type) const;
  /// Number of connections that sent a message.
  size_t connections() const;

private:
  void serve();
  void handle(zeromq::frame_list& frames);

  zmq::context_t context_;
  zmq::socket_t socket_;
  std::string address_;
  std::thread thread_;
  std::atomic<bool> going_{false}, released_{false}, reading_{true};
  std::atomic<microseconds> pause_{microseconds{0}};
  std::vector<std::pair<std::string, wire_frames>> held_;
  mutable std::mutex mutex_;
  std::vector<message> messages_;
};

/// A TCP proxy in front of a gateway, like a NAT or a load balancer. forget()
/// drops its connections without closing them and keeps acknowledging their
/// bytes.
class forgetful_proxy {
public:
  explicit forgetful_proxy(const std::string& gateway);
  ~forgetful_proxy();

  const std::string& address() const { return address_; }
  void forget() { forgotten_ = made_.load(); }
  size_t made() const { return made_; }

private:
  struct pair {
    file_descriptor client, gateway;
  };
  void run();
  void forward(pair& x, bool from_client, bool dropped);

  uint16_t to_;
  file_descriptor listener_;
  std::string address_;
  std::vector<pair> pairs_;
  std::atomic<size_t> made_{0}, forgotten_{0};
  std::atomic<bool> going_{true};
  std::thread thread_;
};

/// Closes connections to a port at once for some time. Then a gateway listens
/// on the port.
class late_gateway {
public:
  explicit late_gateway(microseconds cut_off_for);
  ~late_gateway() { thread_.join(); }

  const std::string& address() const { return address_; }

private:
  uint16_t port_;
  std::string address_;
  std::optional<echo_gateway> gateway_;
  std::thread thread_;
};

} // namespace millrace::test
