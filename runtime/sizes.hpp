// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

/// \file
/// Overflow-safe arithmetic on untrusted sizes.
namespace millrace {

/// The product; nullopt on overflow.
constexpr std::optional<size_t> product(size_t left, size_t right) {
  size_t out = 0;
  if (__builtin_mul_overflow(left, right, &out))
    return {};
  return out;
}

/// Rounds n up to a multiple of `unit`. The result must not overflow.
constexpr size_t rounded_up(size_t n, size_t unit) {
  return (n + unit - 1) / unit * unit;
}

} // namespace millrace
