// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include <msgpack.hpp>

#include "transport/codec.hpp"

namespace millrace {

/// A growing buffer with the interface that msgpack::packer expects.
class byte_sink {
public:
  void write(const char* x, size_t n) {
    if (n > 0) // x may be null when n is 0
      std::memcpy(room(n), x, n);
  }

  /// Reserves n bytes, which the caller fills.
  char* room(size_t n) {
    if (bytes_.size() - used_ < n)
      bytes_.resize(std::max(2 * bytes_.size(), used_ + n));
    return bytes_.data() + std::exchange(used_, used_ + n);
  }

  char* data() { return bytes_.data(); }
  size_t size() const { return used_; }
  size_t capacity() const { return bytes_.size(); }
  void clear() { used_ = 0; }

private:
  std::vector<char> bytes_ = std::vector<char>(1024);
  size_t used_ = 0;
};

struct encoder::impl {
  byte_sink out;
  msgpack::packer<byte_sink> pack{out};

  /// Reuses buffers: messages are frequent and small.
  static std::unique_ptr<impl> take() {
    if (pool_ended || spare().empty())
      return std::make_unique<impl>();
    auto& xs = spare();
    auto out = std::move(xs.back());
    xs.pop_back();
    return out;
  }

  static void give_back(std::unique_ptr<impl> x) {
    if (pool_ended || x->out.capacity() > 65'536 || spare().size() >= 4)
      return;
    x->out.clear();
    spare().push_back(std::move(x));
  }

  static std::vector<std::unique_ptr<impl>>& spare() {
    static thread_local pool out;
    return out.buffers;
  }

  struct pool {
    std::vector<std::unique_ptr<impl>> buffers;
    ~pool() { pool_ended = true; }
  };
  /// An encoder may outlive its thread's pool, for example in a static object.
  static thread_local bool pool_ended;
};

thread_local bool encoder::impl::pool_ended = false;

encoder::encoder(timestamp now, address_book* book)
  : impl_(impl::take()),
    now_(now),
    book_(book) {
}

encoder::encoder(encoder&&) noexcept = default;

encoder::~encoder() {
  if (impl_)
    impl::give_back(std::move(impl_));
}

size_t encoder::size() const {
  return impl_->out.size() + lent_;
}

void encoder::put(bool value) {
  value ? impl_->pack.pack_true() : impl_->pack.pack_false();
}

void encoder::put(double value) {
  // Not pack_double: it writes whole numbers as integers, and its conversion of
  // 2^64 to an integer overflows.
  auto bits = std::bit_cast<uint64_t>(value);
  auto* at = impl_->out.room(9);
  *at++ = static_cast<char>(0xcb);
  for (int shift = 56; shift >= 0; shift -= 8)
    *at++ = static_cast<char>(bits >> shift);
}

void encoder::put(deadline value) {
  if (value.at == far_future)
    nil();
  else
    signed_integer(to_us(value.at - now_).count());
}

void encoder::put(const shape& value) {
  begin_array(value.rank());
  for (auto n : value)
    signed_integer(n);
}

void encoder::tensor_fields(const tensor& value) {
  text("dtype");
  put(value.type);
  text("shape");
  put(value.extents);
  text("data");
  put(value.data);
}

void encoder::put(const tensor& value) {
  begin_map(3);
  tensor_fields(value);
}

void encoder::put(const named_tensor& value) {
  begin_map(4);
  text("name");
  text(value.name);
  tensor_fields(value.value);
}

void encoder::put(const caf::strong_actor_ptr& actor) {
  if (actor && book_ != nullptr)
    text(book_->address_of(actor));
  else
    nil();
}

void encoder::nil() {
  impl_->pack.pack_nil();
}

void encoder::text(std::string_view content) {
  auto n = static_cast<uint32_t>(content.size());
  if (n < 32) { // the usual case
    auto* at = impl_->out.room(n + 1);
    *at = static_cast<char>(0xa0 | n);
    std::copy(content.begin(), content.end(), at + 1);
    return;
  }
  impl_->pack.pack_str(n).pack_str_body(content.data(), n);
}

void encoder::unsigned_integer(uint64_t number) {
  impl_->pack.pack_uint64(number);
}

void encoder::signed_integer(int64_t number) {
  impl_->pack.pack_int64(number);
}

void encoder::begin_array(size_t n) {
  impl_->pack.pack_array(static_cast<uint32_t>(n));
}

void encoder::begin_map(size_t n) {
  impl_->pack.pack_map(static_cast<uint32_t>(n));
}

void encoder::put(const shared_bytes& bytes) {
  if (bytes.size() > inline_limits::one
      || inlined_ + bytes.size() > inline_limits::all) {
    attachments_.push_back(bytes);
    lent_ += bytes.size();
    return unsigned_integer(attachments_.size() - 1);
  }
  inlined_ += bytes.size();
  auto n = static_cast<uint32_t>(bytes.size());
  impl_->pack.pack_bin(n).pack_bin_body(
    reinterpret_cast<const char*>(bytes.data()), n);
}

size_t encoder::open_map(size_t most) {
  auto at = impl_->out.size();
  // The size is written by close_map; one byte holds up to 15.
  begin_map(most <= 15 ? 0 : 16);
  return at;
}

void encoder::close_map(size_t at, size_t most, size_t n) {
  auto* head = reinterpret_cast<uint8_t*>(impl_->out.data()) + at;
  if (most <= 15)
    *head = static_cast<uint8_t>(0x80 | n);
  else
    head[2] = static_cast<uint8_t>(n);
}

shared_bytes encoder::take_body() {
  auto out = shared_bytes::copy_of(
    std::string_view{impl_->out.data(), impl_->out.size()});
  impl_->out.clear();
  return out;
}

} // namespace millrace
