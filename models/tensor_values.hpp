// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "models/tensor.hpp"

namespace millrace {

/// Converts the bits of an IEEE 754 binary16.
inline double from_half(uint16_t bits) {
  auto exponent = (bits >> 10) & 31;
  auto fraction = bits & 1023;
  auto sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31)
    return fraction != 0 ? NAN : sign * INFINITY;
  return exponent == 0 ? sign * std::ldexp(fraction, -24)
                       : sign * std::ldexp(fraction + 1024, exponent - 25);
}

/// Converts a bfloat16, the upper half of a float's bits.
inline double from_brain_half(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

/// Calls f(values) with the first `most` numbers of a tensor, in row-major
/// order. `values` is a std::vector of the C++ integer or float type, or of
/// double for 16-bit floats.
template <class F>
auto visit_values(const tensor& values, size_t most, F f) {
  auto read = [&]<class T>(T, auto convert) {
    auto n = std::min(most, values.data.size() / sizeof(T));
    auto* at = reinterpret_cast<const T*>(values.data.data());
    std::vector<decltype(convert(T{}))> out;
    out.reserve(n);
    for (size_t i = 0; i < n; ++i)
      out.push_back(convert(at[i]));
    return f(out);
  };
  auto same = [](auto y) { return y; };
  switch (values.type) {
  case dtype::boolean:
    return read(uint8_t{}, [](uint8_t y) { return y != 0; });
  case dtype::u8:
    return read(uint8_t{}, [](uint8_t y) { return unsigned{y}; });
  case dtype::i8:
    return read(int8_t{}, [](int8_t y) { return int{y}; });
  case dtype::i16:
    return read(int16_t{}, same);
  case dtype::i32:
    return read(int32_t{}, same);
  case dtype::i64:
    return read(int64_t{}, same);
  case dtype::f16:
    return read(uint16_t{}, from_half);
  case dtype::bf16:
    return read(uint16_t{}, from_brain_half);
  case dtype::f64:
    return read(double{}, same);
  case dtype::f32:
    break;
  }
  return read(float{}, same);
}

} // namespace millrace
