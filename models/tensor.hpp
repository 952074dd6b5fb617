// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "runtime/bytes.hpp"
#include "runtime/error.hpp"

namespace millrace {

/// Element types, named as in the safetensors format.
enum class dtype : uint8_t {
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64,
  f16,
  bf16,
  f32,
  f64
};

constexpr auto names_of(dtype) {
  return name_table{"BOOL", "U8",  "I8",   "I16", "I32",
                    "I64",  "F16", "BF16", "F32", "F64"};
}

/// Bytes of one element.
constexpr size_t size_of(dtype type) {
  constexpr std::array<uint8_t, 10> sizes{1, 1, 1, 2, 4, 8, 2, 2, 4, 8};
  return sizes[static_cast<size_t>(type)];
}

/// The extents of a tensor, row-major, without a heap allocation. In a
/// signature -1 stands for any extent; a tensor's own extents are never
/// negative.
class shape {
public:
  static constexpr size_t max_rank = 8;

  shape() = default;
  shape(std::initializer_list<int64_t> extents);

  /// Errors: too_large above max_rank extents.
  static result<shape> of(std::span<const int64_t> extents);

  size_t rank() const { return rank_; }
  int64_t operator[](size_t i) const { return extents_[i]; }
  int64_t& operator[](size_t i) { return extents_[i]; }
  const int64_t* begin() const { return extents_.data(); }
  const int64_t* end() const { return extents_.data() + rank_; }
  friend bool operator==(const shape& left, const shape& right);

private:
  std::array<int64_t, max_rank> extents_{};
  uint8_t rank_ = 0;
};

/// "[1, 64]".
std::string to_string(const shape& extents);

/// Bytes of a dense tensor. Errors: bad_request for a negative extent;
/// too_large when the product does not fit into 63 bits.
result<size_t> dense_bytes(dtype type, const shape& extents);

/// A dense row-major tensor that shares its bytes with their owner: a received
/// frame, a mapped file, a backend's result. The bytes are aligned for the
/// dtype. Independent of LibTorch.
struct tensor {
  dtype type = dtype::f32;
  shape extents;
  shared_bytes data;

  /// Errors: as dense_bytes; bad_request when the number of bytes differs from
  /// that of the extents.
  static result<tensor> make(dtype type, const shape& extents,
                             shared_bytes data);

  /// All elements zero. Errors: as dense_bytes.
  static result<tensor> zeros(dtype type, const shape& extents);

  friend bool operator==(const tensor&, const tensor&) = default;
};

/// "F32[1, 64]".
std::string to_string(const tensor& values);

} // namespace millrace
