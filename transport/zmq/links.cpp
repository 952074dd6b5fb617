// SPDX-License-Identifier: Apache-2.0
#include "transport/zmq/links.hpp"

#include <ctime>

#include "runtime/text.hpp"

namespace millrace::zeromq {

std::string make_routing_id(const origin& self, uint64_t connection) {
  return self.node + "@" + std::to_string(self.incarnation) + "@"
         + std::to_string(self.start) + "@" + std::to_string(connection);
}

std::optional<origin> parse_routing_id(std::string_view text) {
  auto parts = split(text, '@');
  if (parts.size() != 4)
    return std::nullopt;
  auto incarnation = number_in<uint64_t>(parts[1]);
  auto start = number_in<uint64_t>(parts[2]);
  if (!incarnation || !start)
    return std::nullopt;
  return origin{std::string{parts[0]}, *incarnation, *start};
}

result<void> check_hello(const hello& greeting, const origin& from) {
  if (greeting.self.name != from.node
      || greeting.self.incarnation != from.incarnation
      || greeting.start != from.start)
    return error{ec::bad_request,
                 "a hello of node " + shown(greeting.self.name)
                   + " came from node " + shown(from.node),
                 {}};
  constexpr uint64_t day = 24 * 60 * 60;
  auto latest = static_cast<uint64_t>(std::time(nullptr)) + day;
  if (greeting.self.incarnation > latest)
    return error{ec::bad_request,
                 "incarnation " + std::to_string(greeting.self.incarnation)
                   + " of node " + shown(greeting.self.name) + " is over "
                   + std::to_string(latest) + ", one start a second since 1970",
                 {}};
  return {};
}

link_set::link_set(zmq::context_t& context, origin self, socket_options options,
                   std::optional<key_pair> own)
  : context_(context),
    self_(std::move(self)),
    options_(options),
    own_(std::move(own)) {
}

result<void> link_set::connect(const std::string& address,
                               const std::string& node,
                               const std::string& server_key) try {
  auto n = ++connections_;
  auto dealer = make_dealer(context_, make_routing_id(self_, n), options_);
  if (own_)
    connect_with(dealer, *own_, server_key);
  socket_events happens{context_, dealer,
                        ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED
                          | failed_handshakes};
  if (auto done = zeromq::connect(dealer, address); !done)
    return done;
  links_.erase(address); // events are destroyed before their socket
  links_.emplace(address,
                 link{node, server_key, std::move(dealer), std::move(happens)});
  ready_ = true;
  return {};
} catch (const zmq::error_t& e) {
  return error{ec::unavailable,
               "no socket to connect to " + address + ": " + e.what(),
               {}};
}

void link_set::drop(const std::string& address) {
  links_.erase(address);
}

bool link_set::send(const std::string& address, const wire_message& message,
                    timestamp now) {
  auto i = links_.find(address);
  return i != links_.end() && zeromq::send(i->second.dealer, {}, message, now);
}

std::vector<link_set::server> link_set::servers() const {
  std::vector<server> out;
  for (auto& [address, x] : links_)
    out.push_back({address, x.node, x.server_key});
  return out;
}

void link_set::add_to(wait_list& list) {
  for (auto& [address, x] : links_)
    list.add(x.events.socket(), ready_);
}

void link_set::take_events(const callback& connected,
                           const callback& disconnected,
                           const callback& refused) {
  if (!std::exchange(ready_, false))
    return;
  std::vector<std::pair<std::string, int>> events; // by address
  for (auto& [address, x] : links_)
    while (auto event = x.events.next())
      events.emplace_back(address, event->kind);
  for (auto& [address, kind] : events) {
    if (kind == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      connected(address);
    } else if ((kind & failed_handshakes) != 0) {
      refused(address);
    } else {
      disconnected(address);
      // Unless the callback has dropped the link. On failure the old socket
      // goes on trying.
      if (auto i = links_.find(address); i != links_.end()) {
        auto node = i->second.node;
        auto key = i->second.server_key;
        static_cast<void>(connect(address, node, key));
      }
    }
  }
}

} // namespace millrace::zeromq
