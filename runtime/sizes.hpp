// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

/// \file
/// Arithmetic on sizes that somebody else has named.
namespace millrace {

/// Nothing when there is no such size.
constexpr std::optional<size_t> product(size_t x, size_t y) {
  size_t out = 0;
  if (__builtin_mul_overflow(x, y, &out))
    return {};
  return out;
}

/// The first multiple of `unit` from n on, for an n with room for it.
constexpr size_t rounded_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

} // namespace millrace
