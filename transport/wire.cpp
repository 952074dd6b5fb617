// SPDX-License-Identifier: Apache-2.0
#include "transport/wire.hpp"

namespace millrace {

shared_bytes encode_header(const header& head, timestamp now) {
  encoder out{now, nullptr};
  out.put_sparse(head);
  return out.take_body();
}

namespace {

/// Decodes the header at the start of a first frame; returns its size.
result<size_t> read_header(header& out, const_bytes frame, timestamp now) {
  decode_context ctx{now, nullptr, {}, 0};
  auto front = frame.first(std::min(frame.size(), wire_limits::header_bytes));
  auto n = decode_front({&out, &kind_of<header>()}, front, ctx);
  if (!n && front.size() < frame.size())
    return error{ec::too_large,
                 "the first frame does not begin with a header of at most 4096"
                 " bytes: "
                   + n.failure().text,
                 {}};
  if (!n)
    return std::move(n.failure()).within("header");
  return n;
}

/// Errors: bad_request, naming the version found and the one supported.
result<void> check_version(const header& x) {
  if (x.v == protocol_version)
    return {};
  return error{ec::bad_request,
               "protocol version " + std::to_string(x.v)
                 + " is not supported here (expected "
                 + std::to_string(protocol_version) + " in header key 'v')",
               {}};
}

} // namespace

result<opened_frame> open_frame(const_bytes frame, timestamp now) {
  opened_frame out;
  auto n = read_header(out.head, frame, now);
  if (!n)
    return n.failure();
  if (auto known = check_version(out.head); !known)
    return known.failure();
  out.body = frame.subspan(*n);
  return out;
}

wire_frames frame_writer::take() {
  messages_ = 0;
  if (!out_)
    return {};
  wire_frames done{out_->take_body(), out_->take_attachments()};
  out_.reset();
  return done;
}

frame_reader::frame_reader(const_bytes first, std::span<const shared_bytes> raw,
                           timestamp now)
  : rest_(first),
    ctx_{now, nullptr, raw, decode_budget(first.size())} {
}

result<void> frame_reader::next() {
  head_ = {};
  auto n = read_header(head_, rest_, ctx_.now);
  if (!n) {
    head_ = {}; // some keys may have been read
    rest_ = {};
    return n.failure();
  }
  auto known = check_version(head_);
  rest_ = known ? rest_.subspan(*n) : const_bytes{};
  return known;
}

result<void> frame_reader::read_into(slot target) {
  auto n = decode_next(target, rest_, ctx_);
  if (n) {
    rest_ = rest_.subspan(*n);
    return {};
  }
  skip();
  return n.failure();
}

void frame_reader::skip() {
  auto n = size_of_value(rest_);
  rest_ = n ? rest_.subspan(*n) : const_bytes{};
}

bool frame_reader::spend(size_t bytes) {
  auto enough = bytes <= ctx_.budget;
  ctx_.budget -= enough ? bytes : ctx_.budget;
  return enough;
}

} // namespace millrace
