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

/// Of their elements, all together.
inline size_t bytes_of(std::span<const named_tensor> xs) {
  size_t n = 0;
  for (auto& x : xs)
    n += x.value.data.size();
  return n;
}

/// Reads a safetensors file (https://github.com/huggingface/safetensors, format
/// section of its README) that lies in memory; the tensors share its bytes, but
/// for those that lie askew for their dtype, which other writers allow: they
/// are copied, and before that it is seen to that they are there. Order is the
/// order of the bytes in the file.
/// Limits: header 16 MiB, 100,000 tensors, names of 512 bytes.
/// Errors: bad_request saying which tensor; refused are a hole, an overlap, a
/// duplicate name, a length that is not shape times dtype, trailing bytes.
result<std::vector<named_tensor>> read_safetensors(
  const shared_bytes& file, const std::function<result<void>()>& see_to_it =
                              [] { return result<void>{}; });

/// How many bytes of such a file say where the others belong, by its first 8.
/// Errors: bad_request, as above.
result<uint64_t> safetensors_head(const_bytes first, uint64_t file_bytes);

/// A tensor of a file, without its bytes.
struct tensor_entry {
  std::string name;
  dtype type = dtype::u8;
  std::vector<int64_t> extents;
  uint64_t bytes = 0;
};

/// What a safetensors file with these tensors begins with: all but their bytes,
/// which begin at the next multiple of 64. Errors: as write_safetensors.
result<std::string> write_safetensors_head(const std::vector<tensor_entry>& xs);

/// The bytes of a safetensors file with the tensors in the given order, data
/// aligned to 64 bytes by spaces at the header's end. Each tensor's own bytes
/// are padded never: the format allows no holes.
/// Errors: bad_request for a duplicate name.
result<std::string> write_safetensors(const std::vector<named_tensor>& xs);

} // namespace millrace
