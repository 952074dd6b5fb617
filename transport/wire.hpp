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

/// A message as it travels: header and body as MessagePack maps in one frame,
/// bulk as raw frames that nobody copies.
struct wire_message {
  header head;
  shared_bytes body;
  std::vector<shared_bytes> attachments;

  size_t bytes() const { return body.size() + total_bytes(attachments); }
};

/// What a socket sends or has received at once.
struct wire_frames {
  shared_bytes first;
  std::vector<shared_bytes> raw;

  size_t bytes() const { return first.size() + total_bytes(raw); }
};

/// A declared message ready to travel, but for where to and which id.
template <declared T>
wire_message make_wire_message(const T& x, timestamp now, address_book* book) {
  encoder body{now, book};
  body.put_sparse(x);
  wire_message out;
  out.head.v = protocol_version;
  out.head.t = T::record_name();
  out.body = body.take_body();
  out.attachments = body.take_attachments();
  return out;
}

/// What the first frame begins with. Deadlines become time left.
shared_bytes encode_header(const header& x, timestamp now);

/// A first frame, taken apart; the body is a part of the frame.
struct opened_frame {
  header head;
  const_bytes body;
};

/// Errors: bad_request; also for another protocol version, naming both;
/// too_large for a long header.
result<opened_frame> open_frame(const_bytes frame, timestamp now);

// -- several messages in one frame --------------------------------------------

/// Writes messages one after the other: header, body, header, body. The raw
/// frames are numbered through all of them.
class frame_writer {
public:
  /// `now` turns the header's deadline into time left.
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

  /// Another message had better go into another frame: small frames keep both
  /// sides busy, and even those of many tiny tensors stay within the budget of
  /// who reads them.
  bool full() const {
    return messages_ >= wire_limits::grouped
           || (out_ && out_->size() >= 16'384);
  }

  /// What was written; the writer is empty afterwards.
  wire_frames take();

private:
  std::optional<encoder> out_; ///< while there are messages
  size_t messages_ = 0;
};

/// Reads them: next() for a header, then read() or skip() for its body, until
/// at_end(). All share one budget, so that many small messages cost no more
/// than one large: about three times the frame and 48 KiB.
class frame_reader {
public:
  /// Both views must stay.
  frame_reader(const_bytes first, std::span<const shared_bytes> raw,
               timestamp now);

  bool at_end() const { return rest_.empty(); }

  /// Reads the next header. Errors: as open_frame; nothing after it can be read
  /// then, and at_end() holds. After a header of another protocol version
  /// head() has the id that an answer needs; after one that cannot be read it
  /// is empty.
  result<void> next();
  const header& head() const { return head_; }
  header take_head() { return std::move(head_); }

  /// Reads the body that belongs to it. Errors: as decode_into; what follows
  /// can be read all the same, unless the body is no MessagePack: then at_end()
  /// holds.
  template <declared T>
  result<void> read(T& out) {
    return read_into({&out, &kind_of<T>()});
  }

  /// Passes over the body.
  void skip();

  /// Takes what the caller allocates for a message from the budget; false when
  /// that has no more.
  bool spend(size_t bytes);

private:
  result<void> read_into(slot target);

  const_bytes rest_;
  decode_context ctx_;
  header head_;
};

} // namespace millrace
