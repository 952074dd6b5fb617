// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "transport/wire.hpp"
#include "transport/zmq/curve.hpp"
#include "transport/zmq/loans.hpp"

namespace millrace::zeromq {

/// Options of all sockets, set explicitly instead of inherited.
struct socket_options {
  int send_limit = 1000; ///< messages queued per connection
  int receive_limit = 1000;
  /// A connection is lost if the other host acknowledges nothing for this time,
  /// or if the other process reads nothing while all buffers are full.
  int unacknowledged_ms = 1000;
  int connect_timeout_ms = 1000; ///< for one attempt
  int reconnect_max_ms = 1000;   ///< longest pause between two attempts
  /// A connection with a longer frame is closed before the frame is read.
  size_t longest_frame = wire_limits::message_bytes;

  /// Sets the minimum time before a silent connection is closed. It does not
  /// decide which peers are dead: nodes send heartbeats of their own.
  void keep_for(microseconds duration) {
    unacknowledged_ms =
      std::max(unacknowledged_ms, static_cast<int>(duration.count() / 1000));
  }

  /// Clients may read slowly.
  static constexpr int client_unacknowledged_ms = 5000;

  /// Options of a client's socket. Few messages wait in ZeroMQ; others wait in
  /// the client, which has their deadlines.
  static socket_options of_client() {
    socket_options out;
    out.receive_limit = 100'000;
    out.unacknowledged_ms = client_unacknowledged_ms;
    return out;
  }

  /// For senders that may be faster than this process: messages that wait in
  /// ZeroMQ count in no budget.
  socket_options for_strangers(size_t longest) const {
    auto out = *this;
    out.receive_limit = 64;
    out.unacknowledged_ms =
      std::max(unacknowledged_ms, client_unacknowledged_ms);
    out.longest_frame = std::min(longest, longest_frame);
    return out;
  }
};

/// Binds a ROUTER. It refuses to send to a missing receiver, and a connection
/// cannot take over another's routing id. Only this user can connect to a Unix
/// socket. Errors: bad_config if the address is invalid or in use.
result<zmq::socket_t>
bind_router(zmq::context_t& context, const std::string& address,
            const socket_options& options,
            const std::optional<curve_server>& secured = {});

/// A DEALER with this routing id (empty: the other side generates one), not
/// connected yet.
zmq::socket_t make_dealer(zmq::context_t& context,
                          const std::string& routing_id,
                          const socket_options& options);

/// Starts to connect; ZeroMQ retries for ever. Errors: bad_config if the
/// address cannot be parsed.
result<void> connect(zmq::socket_t& socket, const std::string& address);

/// The bound address, with wildcards resolved.
std::string bound_address(zmq::socket_t& socket);

/// Calls a function of ZeroMQ again after an interruption by a signal.
template <class F>
auto undisturbed(F call) {
  for (;;)
    try {
      return call();
    } catch (const zmq::error_t& e) {
      if (e.num() != EINTR)
        throw;
    }
}

/// The frames of one message.
using frame_list = std::vector<zmq::message_t>;

/// Receives the next message without waiting. Returns false if there is none.
/// Of a message with too many frames only the first max_frames + 1 are
/// returned; the rest is discarded.
bool receive(zmq::socket_t& from, frame_list& out);

/// Sends without waiting. Returns false if the receiver is missing or its queue
/// is full; no part is sent then (zmq_msg_send(3): all or none of the parts). A
/// non-empty routing id is sent first.
bool send(zmq::socket_t& to, std::string_view routing_id,
          const wire_message& message, timestamp now);

/// As above. Lent bytes stay on the account until they are sent; see loan_book.
bool send(zmq::socket_t& to, std::string_view routing_id,
          const wire_frames& frames, loan_terms terms = {});

/// Whether all bytes of the frames are copied on sending.
bool is_copied(const wire_frames& frames);

/// Takes a received frame as bytes, aligned for every dtype.
shared_bytes adopt(zmq::message_t&& message);

/// The bytes of a frame, which must outlive the view.
const_bytes view(const zmq::message_t& message);

/// Takes frames[first...] as raw frames. Errors: too_large.
result<std::vector<shared_bytes>> take_raw(frame_list& frames, size_t first);

/// Header, body and attachments from frames[first...]. Decodes only the header;
/// the body points into its frame. Errors: bad_request, too_large.
result<wire_message> to_wire(frame_list& frames, size_t first, timestamp now);

} // namespace millrace::zeromq
