// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "models/tensor.hpp"

namespace millrace {

struct named_tensor {
  std::string name;
  tensor value;
  friend bool operator==(const named_tensor&, const named_tensor&) = default;
};

/// Bytes of all tensors together.
inline size_t bytes_of(std::span<const named_tensor> xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += x.value.data.size();
  return n;
}

/// Reads a safetensors file (https://github.com/huggingface/safetensors, format
/// section of its README) in memory. The tensors share its bytes, in the order
/// of the file. Tensors that are not aligned for their dtype, which other
/// writers allow, are copied; `see_to_it` is called before, so that the caller
/// can make their bytes present. Limits: header 16 MiB, 100,000 tensors, names
/// of 512 bytes.
/// Errors: bad_request naming the tensor, for a hole, an overlap, a duplicate
/// name, a length that is not shape times dtype, or trailing bytes.
result<std::vector<named_tensor>> read_safetensors(
  const shared_bytes& file, const std::function<result<void>()>& see_to_it =
                              [] { return result<void>{}; });

/// Bytes of the header with its length field, by the first 8 bytes of a file.
/// Errors: bad_request, as read_safetensors.
result<uint64_t> safetensors_head(const_bytes first, uint64_t file_bytes);

/// A tensor of a file, without its bytes.
struct tensor_entry {
  std::string name;
  dtype type = dtype::u8;
  std::vector<int64_t> extents;
  uint64_t bytes = 0;
};

/// The header of a safetensors file with these tensors, whose bytes begin at
/// the next multiple of 64.
/// Errors: as write_safetensors.
result<std::string> write_safetensors_head(const std::vector<tensor_entry>& xs);

/// The bytes of a safetensors file with the tensors in the given order. Spaces
/// at the header's end align the data to 64 bytes. The tensors themselves are
/// never padded: the format allows no holes.
/// Errors: bad_request for a duplicate name.
result<std::string> write_safetensors(const std::vector<named_tensor>& xs);

} // namespace millrace
