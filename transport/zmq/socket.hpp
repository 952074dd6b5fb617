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

/// What all our sockets have in common, set and not inherited.
struct socket_options {
  int send_limit = 1000; ///< messages queued per connection
  int receive_limit = 1000;
  /// A connection is lost when the other host acknowledges nothing for this
  /// long, or the other process reads nothing while all buffers are full.
  int unacknowledged_ms = 1000;
  int connect_timeout_ms = 1000; ///< for one attempt
  int reconnect_max_ms = 1000;   ///< longest pause between two attempts
  /// A connection that sends a longer frame is closed before it is read.
  size_t longest_frame = wire_limits::message_bytes;

  /// Keeps connections at least this long. Which peers are taken for dead is
  /// another matter: nodes send heartbeats of their own.
  void keep_for(microseconds x) {
    unacknowledged_ms =
      std::max(unacknowledged_ms, static_cast<int>(x.count() / 1000));
  }

  /// For clients, which may be slow readers.
  static constexpr int client_unacknowledged_ms = 5000;

  /// For a client's socket. Few messages wait in ZeroMQ: further ones wait in
  /// the client, which knows their deadlines.
  static socket_options of_client() {
    socket_options out;
    out.receive_limit = 100'000;
    out.unacknowledged_ms = client_unacknowledged_ms;
    return out;
  }

  /// For those who may send faster than we read: what waits in ZeroMQ is
  /// counted in no budget.
  socket_options for_strangers(size_t longest) const {
    auto out = *this;
    out.receive_limit = 64;
    out.unacknowledged_ms =
      std::max(unacknowledged_ms, client_unacknowledged_ms);
    out.longest_frame = std::min(longest, longest_frame);
    return out;
  }
};

/// A socket of ours that waits for peers. ROUTER: refuses to send to who is
/// not there, and a connection cannot take over another's routing id. A Unix
/// socket is this user's alone.
/// Errors: bad_config when the address is wrong or taken.
result<zmq::socket_t>
bind_router(zmq::context_t& context, const std::string& address,
            const socket_options& options,
            const std::optional<curve_server>& secured = {});

/// A DEALER with this routing id (empty: the other side makes one up), not yet
/// connected.
zmq::socket_t make_dealer(zmq::context_t& context,
                          const std::string& routing_id,
                          const socket_options& options);

/// Starts to connect; ZeroMQ then tries for ever.
/// Errors: bad_config when the address cannot be parsed.
result<void> connect(zmq::socket_t& x, const std::string& address);

/// The address a socket was bound to, wildcards resolved.
std::string bound_address(zmq::socket_t& x);

/// What a call of ZeroMQ's gives that is made again when a signal ended it.
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

/// Takes the next message without waiting. Returns false when there is none.
/// Of a message of too many frames the first ones come back, one more than are
/// allowed; the rest is read away.
bool receive(zmq::socket_t& from, frame_list& out);

/// Sends without waiting; false when the receiver is not there or does not
/// read: it then gets nothing of the message (zmq_msg_send(3): all or none of
/// the parts). A routing id goes first unless empty.
bool send(zmq::socket_t& to, std::string_view routing_id, const wire_message& x,
          timestamp now);

/// As above. Bytes that are lent and not copied are on the account until they
/// are sent; see loan_book.
bool send(zmq::socket_t& to, std::string_view routing_id, const wire_frames& x,
          loan_terms terms = {});

/// Whether sending it copies all its bytes.
bool is_copied(const wire_frames& x);

/// A received frame as bytes, aligned for every dtype. Takes the frame.
shared_bytes adopt(zmq::message_t&& x);

/// The bytes of a frame, which must stay.
const_bytes view(const zmq::message_t& x);

/// frames[first...] as raw frames, which are taken. Errors: too_large.
result<std::vector<shared_bytes>> take_raw(frame_list& frames, size_t first);

/// Header, body and attachments out of frames[first...]. Decodes the header
/// only; the body's bytes are borrowed from that frame.
/// Errors: bad_request, too_large.
result<wire_message> to_wire(frame_list& frames, size_t first, timestamp now);

} // namespace millrace::zeromq
