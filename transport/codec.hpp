// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Declared records as MessagePack maps, both ways. Everything here is about
/// slots, the places values go to; MessagePack itself is seen by encode.cpp
/// and decode.cpp alone. Decoding needs no recursion, allocates no more than a
/// small multiple of the input, and ignores unknown fields.

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

/// The values with which fields are left out of a message: their defaults, but
/// for a type that names others.
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
  virtual std::string address_of(const caf::strong_actor_ptr& x) = 0;
  /// Null when the address is nobody's.
  virtual caf::strong_actor_ptr resolve(std::string_view address) = 0;
};

// -- limits of what is decoded ------------------------------------------------

/// Lists of a large cluster's replicas and texts of configurations fit. What
/// keeps memory in bounds is not these but decode_budget.
struct codec_limits {
  static constexpr size_t body_bytes = 4u << 20;
  static constexpr size_t depth = 12;
  static constexpr uint32_t array = 65'536;
  static constexpr uint32_t map = 4'096;
  static constexpr uint32_t text = 1u << 20;
};

/// Raw bytes that are put into the MessagePack: of one tensor, of all.
struct inline_limits {
  static constexpr size_t one = 1024;
  static constexpr size_t all = 1u << 20;
};

// -- encoding -----------------------------------------------------------------

/// Writes MessagePack. Raw bytes go beside it as frames of their own; few of
/// them go into it, where they are cheaper than a frame.
class encoder {
public:
  /// `now` turns deadlines into time left; `book` may be null where no
  /// handles occur.
  encoder(timestamp now, address_book* book);
  encoder(encoder&&) noexcept;
  encoder& operator=(encoder&&) = delete;
  ~encoder();

  /// What follows is written at this time.
  void set_now(timestamp x) { now_ = x; }
  /// Bytes written so far, those of raw frames included.
  size_t size() const;

  template <declared T>
  void put(const T& x) {
    begin_map(field_count<T>);
    for_each_field(x, [this](std::string_view name, auto& member) {
      text(name);
      put(member);
    });
  }
  /// Leaves out fields with the values of left_out.
  template <declared T>
  void put_sparse(const T& x) {
    static const T plain = left_out<T>();
    size_t n = 0;
    auto at = open_map(field_count<T>);
    each_set(x, plain, [&](std::string_view name, auto& member) {
      ++n;
      text(name);
      put(member);
    });
    close_map(at, field_count<T>, n);
  }
  void put(bool x);
  template <std::unsigned_integral T>
  void put(T x) {
    unsigned_integer(x);
  }
  template <std::signed_integral T>
  void put(T x) {
    signed_integer(x);
  }
  void put(double x);
  void put(const std::string& x) { text(x); }
  template <named_enum T>
  void put(T x) {
    text(to_string(x));
  }
  void put(microseconds x) { signed_integer(x.count()); }
  void put(byte_count x) { unsigned_integer(x.value); }
  /// Time left in microseconds, or nil for never.
  void put(deadline x);
  void put(const shape& x);
  void put(const tensor& x);
  void put(const named_tensor& x);
  /// The bytes, or the number of the frame that holds them.
  void put(const shared_bytes& x);
  void put(const caf::strong_actor_ptr& x);
  template <class... Sigs>
  void put(const caf::typed_actor<Sigs...>& x) {
    put(caf::actor_cast<caf::strong_actor_ptr>(x));
  }
  template <class T>
  void put(const std::optional<T>& x) {
    if (x)
      put(*x);
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

  /// The MessagePack written so far; the encoder is empty afterwards.
  shared_bytes take_body();
  std::vector<shared_bytes> take_attachments() {
    return std::move(attachments_);
  }

private:
  template <declared T, class F>
  static void each_set(const T& x, const T& plain, F f) {
    std::apply(
      [&](auto... fs) {
        [[maybe_unused]] auto one = [&](auto field) {
          if (!(x.*field.member == plain.*field.member))
            f(field.name, x.*field.member);
        };
        (one(fs), ...);
      },
      T::fields());
  }
  void nil();
  void text(std::string_view x);
  void unsigned_integer(uint64_t x);
  void signed_integer(int64_t x);
  void begin_array(size_t n);
  void begin_map(size_t n);
  /// A map whose size is told at its end; returns where it begins.
  size_t open_map(size_t most);
  void close_map(size_t at, size_t most, size_t n);
  void tensor_fields(const tensor& x);

  struct impl;
  std::unique_ptr<impl> impl_;
  std::vector<shared_bytes> attachments_;
  size_t inlined_ = 0; ///< raw bytes that went into the MessagePack
  size_t lent_ = 0;    ///< those that did not
  timestamp now_;
  address_book* book_;
};

// -- decoding -----------------------------------------------------------------

/// What decoding needs besides the bytes.
struct decode_context {
  timestamp now;
  address_book* book = nullptr;
  std::span<const shared_bytes> attachments;
  size_t budget = 0; ///< bytes that elements of lists and maps may still take
};

struct slot_kind;

/// The place where the next value goes; one without a kind is ignored.
struct slot {
  void* target = nullptr;
  const slot_kind* kind = nullptr;
  int field = -1; ///< which field of its record, to notice one given twice
};

/// What a place accepts. An absent function means: not this kind of value. The
/// functions return false when the value is of the right kind but not valid.
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
  std::string (*objection)(void*) = nullptr;        ///< what finish found wrong
};

/// Parses one MessagePack value into a slot.
/// Errors: bad_request with the offset, the key and what was expected;
/// too_large over a limit.
result<void> decode_into(slot target, const_bytes body, decode_context& ctx);

/// A MessagePack value for people, like JSON; of one that is none, or large,
/// its size.
std::string printed(const_bytes value);

/// The fields in which two records differ, for people: "replicas 1 -> 2,
/// policy.max_batch 1 -> 8"; empty when they are the same.
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
  std::apply([&](auto... fields) { (add(fields), ...); }, T::fields());
  return out;
}

/// As above, for the value that other bytes follow. Returns its size.
result<size_t> decode_front(slot target, const_bytes input,
                            decode_context& ctx);

/// As above, for one of several values that share the budget already set.
result<size_t> decode_next(slot target, const_bytes input, decode_context& ctx);

/// The size of the value that bytes begin with; nothing when it is not whole,
/// is no MessagePack or has more than 512 levels. Allocates little, whatever it
/// is.
std::optional<size_t> size_of_value(const_bytes input);

/// What decoding so many bytes may allocate for elements of lists and maps.
constexpr size_t decode_budget(size_t input_bytes) {
  return 3 * input_bytes + 49'152;
}

template <class T>
const slot_kind& kind_of();

/// Decodes a record; fields that are missing keep their defaults.
template <declared T>
result<T> decode(const_bytes body, decode_context& ctx) {
  T out;
  if (auto done = decode_into({&out, &kind_of<T>()}, body, ctx); !done)
    return done.failure();
  return out;
}

} // namespace millrace

#include "transport/codec_kinds.hpp"
