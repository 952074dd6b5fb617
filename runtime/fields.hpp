// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <limits>
#include <string_view>
#include <tuple>
#include <type_traits>

/// \file
/// One declaration per record. MILLRACE_FIELDS stands inside a plain struct and
/// lists its members once. MessagePack, CAF, the printed form, JSON and durable
/// rows are all derived from this list.
///
///     struct heartbeat {
///       uint64_t incarnation = 0;
///       MILLRACE_FIELDS(heartbeat, incarnation)
///     };

namespace millrace {

/// A member and its name on the wire.
template <class T, class M>
struct field {
  std::string_view name;
  M T::*member;
};

template <class T, class M>
field(std::string_view, M T::*) -> field<T, M>; // clang 14 needs this guide

/// A struct with MILLRACE_FIELDS in it.
template <class T>
concept declared = requires {
  T::record_name();
};

/// Description and limits of an option. Limits are plain numbers, for durations
/// in seconds, for sizes in bytes.
struct note {
  std::string_view says;
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

template <declared T>
inline constexpr size_t field_count = T::with_fields([](auto... fields) {
  return sizeof...(fields);
});

/// A record of options: notes() returns a std::array with one note per field,
/// in order.
template <class T>
concept annotated = declared<T> && requires {
  requires std::tuple_size_v<decltype(T::notes())>
  == field_count<T>;
};

/// Calls f(name, member) for each field in order of declaration.
template <class T, class F>
constexpr void for_each_field(T& record, F&& f) {
  std::remove_const_t<T>::with_fields(
    [&](auto... fs) { (f(fs.name, record.*(fs.member)), ...); });
}

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
  /* A template: instantiated only where it is called. */                      \
  template <class F, class Record = type>                                      \
  static constexpr decltype(auto) with_fields(F&& f) {                         \
    return f(MILLRACE_FIELD_LIST(Record, __VA_ARGS__));                        \
  }                                                                            \
  [[maybe_unused]] friend bool operator==(const type&, const type&) = default;
