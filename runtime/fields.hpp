// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

/// \file
/// One declaration per record. MILLRACE_FIELDS stands inside a plain struct and
/// names its members once; MessagePack, CAF, the printed form, JSON and durable
/// rows all come from that.
///
///     struct heartbeat {
///       uint64_t incarnation = 0;
///       MILLRACE_FIELDS(heartbeat, incarnation)
///     };

namespace millrace {

/// A member with its name on the wire.
template <class T, class M>
struct field {
  std::string_view name;
  M T::*member;
};

template <class T, class M>
field(std::string_view, M T::*) -> field<T, M>; // clang 14 needs it said

/// A struct with MILLRACE_FIELDS in it.
template <class T>
concept declared = requires {
  T::record_name();
  T::fields();
};

/// What a person is told of a field that they can set, and what it may hold:
/// plain numbers as they are, durations in seconds, sizes in bytes.
struct note {
  std::string_view says;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

/// A record whose fields are options: notes() returns a std::array with one
/// note per field, in order.
template <class T>
concept annotated = declared<T> && requires {
  requires std::tuple_size_v<decltype(T::notes())>
  == std::tuple_size_v<decltype(T::fields())>;
};

/// Calls f(name, member) for each field in order of declaration.
template <class T, class F>
constexpr void for_each_field(T& x, F&& f) {
  std::apply([&](auto... fs) { (f(fs.name, x.*(fs.member)), ...); },
             std::remove_const_t<T>::fields());
}

template <declared T>
inline constexpr size_t field_count = std::tuple_size_v<decltype(T::fields())>;

} // namespace millrace

#define MILLRACE_PARENS ()
#define MILLRACE_EXPAND(...)                                                   \
  MILLRACE_EXPAND3(MILLRACE_EXPAND3(MILLRACE_EXPAND3(__VA_ARGS__)))
#define MILLRACE_EXPAND3(...)                                                  \
  MILLRACE_EXPAND2(MILLRACE_EXPAND2(MILLRACE_EXPAND2(__VA_ARGS__)))
#define MILLRACE_EXPAND2(...)                                                  \
  MILLRACE_EXPAND1(MILLRACE_EXPAND1(MILLRACE_EXPAND1(__VA_ARGS__)))
#define MILLRACE_EXPAND1(...) __VA_ARGS__
#define MILLRACE_FIELD_LIST(type, ...)                                         \
  __VA_OPT__(MILLRACE_EXPAND(MILLRACE_FIELD_STEP(type, __VA_ARGS__)))
#define MILLRACE_FIELD_STEP(type, x, ...)                                      \
  ::millrace::field{#x, &type::x} __VA_OPT__(                                  \
    , MILLRACE_FIELD_AGAIN MILLRACE_PARENS(type, __VA_ARGS__))
#define MILLRACE_FIELD_AGAIN() MILLRACE_FIELD_STEP

/// Declares the fields of a struct, in wire order (at most 27).
#define MILLRACE_FIELDS(type, ...)                                             \
  static constexpr std::string_view record_name() {                            \
    return #type;                                                              \
  }                                                                            \
  static constexpr auto fields() {                                             \
    return std::make_tuple(MILLRACE_FIELD_LIST(type, __VA_ARGS__));            \
  }                                                                            \
  [[maybe_unused]] friend bool operator==(const type&, const type&) = default;
