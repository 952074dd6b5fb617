// SPDX-License-Identifier: Apache-2.0

/// \file
/// A model's weights file: header and offsets. Accepted tensors are written and
/// read again as the same.

#include "models/safetensors.hpp"
#include "tests/fuzz/frames.hpp"
#include "tests/support/allocation_meter.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto file = shared_bytes::copy_of(std::as_bytes(std::span{data, size}));
  std::vector<named_tensor> tensors;
  {
    test::allocation_meter meter;
    if (auto x = read_safetensors(file))
      tensors = std::move(*x);
    fuzz::require(meter.peak() <= fuzz::memory_allowed(size),
                  "P11: decoding holds at most 4 x the input and 64 KiB");
  }
  for (auto& x : tensors) {
    auto& bytes = x.value.data;
    auto width = size_of(x.value.type);
    fuzz::require(reinterpret_cast<uintptr_t>(bytes.data()) % width == 0,
                  "a tensor's elements lie as the processor wants them to");
    auto in_file = bytes.data() >= file.data()
                   && bytes.data() + bytes.size() <= file.data() + file.size();
    fuzz::require(in_file || width > 1, "a tensor lies in its file if it can");
  }
  auto again = write_safetensors(tensors);
  if (tensors.empty() || !again)
    return 0; // names that JSON cannot represent
  auto same = read_safetensors(shared_bytes::copy_of(*again));
  fuzz::require(same && *same == tensors,
                "what was accepted comes back as it was");
  return 0;
}
