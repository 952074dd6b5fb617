// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "runtime/bytes.hpp"
#include "runtime/error.hpp"
#include "transport/codec.hpp"
#include "transport/messages/envelope.hpp"
#include "transport/wire_limits.hpp"

namespace millrace {

/// A message in transit: header and body as MessagePack maps in one frame,
/// large tensors as raw frames that are not copied.
struct wire_message {
  header head;
  shared_bytes body;
  std::vector<shared_bytes> attachments;

  size_t bytes() const { return body.size() + total_bytes(attachments); }
};

/// The frames of one send or receive call on a socket.
struct wire_frames {
  shared_bytes first;
  std::vector<shared_bytes> raw;

  size_t bytes() const { return first.size() + total_bytes(raw); }
};

/// Encodes a declared message; the caller sets receiver and id.
template <declared T>
wire_message make_wire_message(const T& content, timestamp now,
                               address_book* book) {
  encoder body{now, book};
  body.put_sparse(content);
  wire_message out;
  out.head.v = protocol_version;
  out.head.t = T::record_name();
  out.body = body.take_body();
  out.attachments = body.take_attachments();
  return out;
}

/// Encodes the header at the start of a first frame. Deadlines become time
/// left.
shared_bytes encode_header(const header& head, timestamp now);

/// A first frame split into header and body; the body points into the frame.
struct opened_frame {
  header head;
  const_bytes body;
};

/// Errors: bad_request, also for another protocol version, with both versions;
/// too_large for a long header.
result<opened_frame> open_frame(const_bytes frame, timestamp now);

// -- several messages in one frame --------------------------------------------

/// Writes several messages into one frame: header, body, header, body. Raw
/// frames are numbered across all messages.
class frame_writer {
public:
  /// `now` converts the header's deadline into time left.
  template <declared T>
  void add(header head, const T& body, timestamp now = {}) {
    head.v = protocol_version;
    head.t = T::record_name();
    if (!out_)
      out_.emplace(now, nullptr);
    out_->set_now(now);
    out_->put_sparse(head);
    out_->put_sparse(body);
    ++messages_;
  }

  size_t messages() const { return messages_; }

  /// Whether the next message should start a new frame. Small frames keep both
  /// sides busy, and frames of many tiny tensors stay within the reader's
  /// budget.
  bool full() const {
    return messages_ >= wire_limits::grouped
           || (out_ && out_->size() >= 16'384);
  }

  /// Returns the frames written so far and empties the writer.
  wire_frames take();

private:
  std::optional<encoder> out_; ///< while there are messages
  size_t messages_ = 0;
};

/// Reads the messages of one frame: next() for a header, then read() or skip()
/// for its body, until at_end(). All messages share one budget, so that many
/// small messages cost no more than one large message: about three times the
/// frame and 48 KiB.
class frame_reader {
public:
  /// Both views must outlive the reader.
  frame_reader(const_bytes first, std::span<const shared_bytes> raw,
               timestamp now);

  bool at_end() const { return rest_.empty(); }

  /// Reads the next header. Errors: as open_frame; the rest of the frame cannot
  /// be read then, and at_end() holds. After a header of another protocol
  /// version head() has the id for an answer; after an unreadable header it is
  /// empty.
  result<void> next();
  const header& head() const { return head_; }
  header take_head() { return std::move(head_); }

  /// Reads the body of the current header. Errors: as decode_into. The next
  /// message can still be read unless the body is no MessagePack: then at_end()
  /// holds.
  template <declared T>
  result<void> read(T& out) {
    return read_into({&out, &kind_of<T>()});
  }

  /// Skips the body of the current header.
  void skip();

  /// Charges the caller's allocations for a message to the budget; false if the
  /// budget is exceeded.
  bool spend(size_t bytes);

private:
  result<void> read_into(slot target);

  const_bytes rest_;
  decode_context ctx_;
  header head_;
};

} // namespace millrace
