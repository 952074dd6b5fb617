// SPDX-License-Identifier: Apache-2.0
#include "models/tensor.hpp"

#include <algorithm>

#include "runtime/text.hpp"

namespace millrace {

shape::shape(std::initializer_list<int64_t> extents) {
  MILLRACE_ASSERT(extents.size() <= max_rank);
  std::copy(extents.begin(), extents.end(), extents_.begin());
  rank_ = static_cast<uint8_t>(extents.size());
}

result<shape> shape::of(std::span<const int64_t> extents) {
  if (extents.size() > max_rank)
    return error{ec::too_large, "a tensor of " + std::to_string(extents.size())
                                  + " dimensions (at most "
                                  + std::to_string(max_rank) + ")"};
  shape out;
  std::copy(extents.begin(), extents.end(), out.extents_.begin());
  out.rank_ = static_cast<uint8_t>(extents.size());
  return out;
}

bool operator==(const shape& left, const shape& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

std::string to_string(const shape& extents) {
  return "["
         + joined(extents, ", ", [](int64_t n) { return std::to_string(n); })
         + "]";
}

result<size_t> dense_bytes(dtype type, const shape& extents) {
  int64_t n = static_cast<int64_t>(size_of(type));
  for (auto x : extents) {
    if (x < 0)
      return error{ec::bad_request,
                   "shape " + to_string(extents) + " has a negative extent"};
    if (__builtin_mul_overflow(n, x, &n))
      return error{ec::too_large, "shape " + to_string(extents)
                                    + " has more bytes than fit in 63 bits"};
  }
  return static_cast<size_t>(n);
}

result<tensor> tensor::make(dtype type, const shape& extents,
                            shared_bytes data) {
  auto n = dense_bytes(type, extents);
  if (!n)
    return n.failure();
  if (*n != data.size())
    return error{ec::bad_request, std::string{to_string(type)}
                                    + to_string(extents) + " needs "
                                    + std::to_string(*n) + " bytes, got "
                                    + std::to_string(data.size())};
  return tensor{type, extents, std::move(data)};
}

result<tensor> tensor::zeros(dtype type, const shape& extents) {
  auto n = dense_bytes(type, extents);
  if (!n)
    return n.failure();
  byte_buffer bytes{*n};
  if (*n != 0)
    std::memset(bytes.data(), 0, *n);
  return tensor{type, extents, std::move(bytes).freeze()};
}

std::string to_string(const tensor& values) {
  return std::string{to_string(values.type)} + to_string(values.extents);
}

} // namespace millrace
