// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>

namespace millrace {

/// The names of an enum's values, in order. An enum gets its text form from a
/// function found by argument-dependent lookup:
///     constexpr auto names_of(my_enum) { return name_table{"a", "b"}; }
template <size_t N>
struct name_table : std::array<std::string_view, N> {
  template <class... Ts>
  constexpr name_table(Ts... xs)
    : std::array<std::string_view, N>{std::string_view{xs}...} {}
};

template <class... Ts>
name_table(Ts...) -> name_table<sizeof...(Ts)>;

template <class T>
concept named_enum = std::is_enum_v<T> && requires(T value) {
  names_of(value);
};

template <named_enum T>
constexpr std::string_view to_string(T value) {
  constexpr auto table = names_of(T{});
  auto i = static_cast<size_t>(value);
  return i < table.size() ? table[i] : std::string_view{"?"};
}

/// Returns the value with this name; nullopt for an unknown name.
template <named_enum T>
constexpr std::optional<T> from_string(std::string_view name) {
  constexpr auto table = names_of(T{});
  for (size_t i = 0; i < table.size(); ++i)
    if (table[i] == name)
      return static_cast<T>(i);
  return std::nullopt;
}

} // namespace millrace
