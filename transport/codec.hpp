// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Declared records as MessagePack maps, encoding and decoding. This header is
/// about slots, the targets of decoded values; only encode.cpp and decode.cpp
/// see MessagePack itself. Decoding needs no recursion, allocates no more than
/// a small multiple of the input, and ignores unknown fields.

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/safetensors.hpp"
#include "runtime/actor.hpp"
#include "runtime/bytes.hpp"
#include "runtime/fields.hpp"
#include "runtime/sizes.hpp"
#include "runtime/units.hpp"

namespace millrace {

/// The values for which an encoder omits a field: the defaults, unless the type
/// defines others.
template <declared T>
T left_out() {
  if constexpr (requires { T::left_out(); })
    return T::left_out();
  else
    return T{};
}

/// Turns actor handles into addresses ("node/role/name") and back.
class address_book {
public:
  virtual ~address_book() = default;
  virtual std::string address_of(const caf::strong_actor_ptr& actor) = 0;
  /// Null for an unknown address.
  virtual caf::strong_actor_ptr resolve(std::string_view address) = 0;
};

// -- limits of decoding -------------------------------------------------------

/// Large enough for the replica lists of a large cluster and for texts of
/// configurations. Memory is bounded by decode_budget, not by these limits.
struct codec_limits {
  static constexpr size_t body_bytes = 4u << 20;
  static constexpr size_t depth = 12;
  static constexpr uint32_t array = 65'536;
  static constexpr uint32_t map = 4'096;
  static constexpr uint32_t text = 1u << 20;
};

/// Raw bytes that are written into the MessagePack: per tensor, and in total.
struct inline_limits {
  static constexpr size_t one = 1024;
  static constexpr size_t all = 1u << 20;
};

// -- encoding -----------------------------------------------------------------

/// Writes MessagePack. Large raw bytes become separate frames; small ones go
/// into the MessagePack, where they cost less than a frame.
class encoder {
public:
  /// `now` converts deadlines into time left; `book` may be null if the values
  /// have no handles.
  encoder(timestamp now, address_book* book);
  encoder(encoder&&) noexcept;
  encoder& operator=(encoder&&) = delete;
  ~encoder();

  /// Sets the time for the values that follow.
  void set_now(timestamp time) { now_ = time; }
  /// Bytes written so far, those of raw frames included.
  size_t size() const;

  template <declared T>
  void put(const T& value) {
    begin_map(field_count<T>);
    for_each_field(value, [this](std::string_view name, auto& member) {
      text(name);
      put(member);
    });
  }
  /// Omits fields with the values of left_out.
  template <declared T>
  void put_sparse(const T& record) {
    static const T plain = left_out<T>();
    size_t n = 0;
    auto at = open_map(field_count<T>);
    each_set(record, plain, [&](std::string_view name, auto& member) {
      ++n;
      text(name);
      put(member);
    });
    close_map(at, field_count<T>, n);
  }
  void put(bool value);
  template <std::unsigned_integral T>
  void put(T value) {
    unsigned_integer(value);
  }
  template <std::signed_integral T>
  void put(T value) {
    signed_integer(value);
  }
  void put(double value);
  void put(const std::string& value) { text(value); }
  template <named_enum T>
  void put(T value) {
    text(to_string(value));
  }
  void put(microseconds value) { signed_integer(value.count()); }
  void put(byte_count value) { unsigned_integer(value.value); }
  /// Time left in microseconds, or nil for never.
  void put(deadline value);
  void put(const shape& value);
  void put(const tensor& value);
  void put(const named_tensor& value);
  /// The bytes, or the number of their frame.
  void put(const shared_bytes& bytes);
  void put(const caf::strong_actor_ptr& actor);
  template <class... Sigs>
  void put(const caf::typed_actor<Sigs...>& actor) {
    put(caf::actor_cast<caf::strong_actor_ptr>(actor));
  }
  template <class T>
  void put(const std::optional<T>& value) {
    if (value)
      put(*value);
    else
      nil();
  }
  template <class T>
  void put(const std::vector<T>& xs) {
    begin_array(xs.size());
    for (auto& x : xs)
      put(x);
  }
  template <class T>
  void put(const std::map<std::string, T>& xs) {
    begin_map(xs.size());
    for (auto& [key, x] : xs) {
      text(key);
      put(x);
    }
  }

  /// Returns the MessagePack written so far and empties the encoder.
  shared_bytes take_body();
  std::vector<shared_bytes> take_attachments() {
    return std::move(attachments_);
  }

private:
  template <declared T, class F>
  static void each_set(const T& record, const T& plain, F f) {
    T::with_fields([&](auto... fs) {
      [[maybe_unused]] auto one = [&](auto field) {
        if (!(record.*field.member == plain.*field.member))
          f(field.name, record.*field.member);
      };
      (one(fs), ...);
    });
  }
  void nil();
  void text(std::string_view content);
  void unsigned_integer(uint64_t number);
  void signed_integer(int64_t number);
  void begin_array(size_t n);
  void begin_map(size_t n);
  /// Begins a map; close_map sets its size. Returns its position.
  size_t open_map(size_t most);
  void close_map(size_t at, size_t most, size_t n);
  void tensor_fields(const tensor& value);

  struct impl;
  std::unique_ptr<impl> impl_;
  std::vector<shared_bytes> attachments_;
  size_t inlined_ = 0; ///< raw bytes in the MessagePack
  size_t lent_ = 0;    ///< raw bytes in frames of their own
  timestamp now_;
  address_book* book_;
};

// -- decoding -----------------------------------------------------------------

/// Inputs of decoding besides the bytes.
struct decode_context {
  timestamp now;
  address_book* book = nullptr;
  std::span<const shared_bytes> attachments;
  size_t budget = 0; ///< bytes left for elements of lists and maps
};

struct slot_kind;

/// The target of the next value; a value without a kind is ignored.
struct slot {
  void* target = nullptr;
  const slot_kind* kind = nullptr;
  int field = -1; ///< number of the field in its record, to detect duplicates
};

/// The kinds of values that a target accepts; a null function rejects its kind.
/// A function returns false for a value of the right kind that is not valid.
struct slot_kind {
  const char* expected;
  bool (*nil)(void*) = nullptr;
  bool (*boolean)(void*, bool) = nullptr;
  bool (*integer)(void*, decode_context&, int64_t) = nullptr;
  bool (*large)(void*, uint64_t) = nullptr; ///< above INT64_MAX
  bool (*real)(void*, double) = nullptr;
  bool (*text)(void*, decode_context&, std::string_view) = nullptr;
  bool (*raw)(void*, decode_context&, const_bytes) = nullptr;
  bool (*array)(void*, decode_context&, uint32_t n) = nullptr;
  slot (*element)(void*) = nullptr;
  bool (*map)(void*, decode_context&, uint32_t n) = nullptr;
  slot (*key)(void*, decode_context&, std::string_view) = nullptr;
  bool (*finish)(void*, decode_context&) = nullptr; ///< after array or map
  std::string (*objection)(void*) = nullptr;        ///< error found by finish
};

/// Decodes one MessagePack value into a slot. Errors: bad_request with offset,
/// key and expected value; too_large over a limit.
result<void> decode_into(slot target, const_bytes body, decode_context& ctx);

/// A MessagePack value as readable text, like JSON; its size if it is invalid
/// or large.
std::string printed(const_bytes value);

/// The fields in which two records differ, as readable text: "replicas 1 -> 2,
/// policy.max_batch 1 -> 8"; empty for equal records.
template <declared T>
std::string differences(const T& was, const T& is,
                        const std::string& prefix = {}) {
  std::string out;
  auto text_of = [](auto& x) {
    encoder one{timestamp{}, nullptr};
    one.put(x);
    return printed(one.take_body().view());
  };
  auto add = [&](auto field) {
    auto& a = was.*field.member;
    auto& b = is.*field.member;
    if (a == b)
      return;
    auto name = prefix + std::string{field.name};
    out += out.empty() ? "" : ", ";
    if constexpr (declared<std::remove_cvref_t<decltype(a)>>)
      out += differences(a, b, name + ".");
    else
      out += name + " " + text_of(a) + " -> " + text_of(b);
  };
  T::with_fields([&](auto... fields) { (add(fields), ...); });
  return out;
}

/// As decode_into, for a value followed by other bytes. Returns its size.
result<size_t> decode_front(slot target, const_bytes input,
                            decode_context& ctx);

/// As decode_front, for one of several values that share the budget in `ctx`.
result<size_t> decode_next(slot target, const_bytes input, decode_context& ctx);

/// The size of the first value of the input; none if the value is incomplete,
/// no MessagePack, or nested more than 512 levels deep. Allocates little for
/// any input.
std::optional<size_t> size_of_value(const_bytes input);

/// Bytes that decoding an input of this size may allocate for elements of lists
/// and maps.
constexpr size_t decode_budget(size_t input_bytes) {
  return 3 * input_bytes + 49'152;
}

template <class T>
const slot_kind& kind_of();

/// Decodes a record; missing fields keep their defaults.
template <declared T>
result<T> decode(const_bytes body, decode_context& ctx) {
  T out;
  if (auto done = decode_into({&out, &kind_of<T>()}, body, ctx); !done)
    return done.failure();
  return out;
}

} // namespace millrace

#include "transport/codec_kinds.hpp"
