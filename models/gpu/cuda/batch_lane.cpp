// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/cuda/batch_lane.hpp"

#include <cstring>

namespace millrace::cuda {

namespace {

/// LibTorch's alignment of host memory.
constexpr size_t host_alignment = 64;

size_t aligned(size_t n) {
  return (n + host_alignment - 1) / host_alignment * host_alignment;
}

} // namespace

void batch_lane::hold_inputs() {
  computed_.record(compute_);
  computed_.hold(in());
}

void batch_lane::copy_in(const std::vector<transfer>& inputs,
                         pinned_pool& staging, const pinned_ranges& pinned) {
  size_t bytes = 0;
  for (auto& x : inputs)
    bytes += aligned(x.bytes);
  if (bytes > staging_.size())
    staging_ = staging.take(bytes);
  auto* staged = staging_.data();
  for (auto x : inputs) {
    if (x.bytes > 0 && !pinned.have(x.from, x.bytes)) {
      std::memcpy(staged, x.from, x.bytes);
      x.from = staged;
      staged += aligned(x.bytes);
    }
    check(cudaMemcpyAsync(x.to, x.from, x.bytes, cudaMemcpyHostToDevice, in()),
          "copying inputs to the GPU");
  }
  copied_in_.record(in());
}

void batch_lane::copy_out(const std::vector<transfer>& outputs) {
  computed_.hold(out());
  for (auto& x : outputs)
    check(cudaMemcpyAsync(x.to, x.from, x.bytes, cudaMemcpyDefault, out()),
          "copying outputs from the GPU");
  copied_out_.record(out());
}

void batch_lane::abandon() const noexcept {
  for (auto x : {in(), compute_, out()})
    static_cast<void>(cudaStreamSynchronize(x));
  static_cast<void>(cudaGetLastError());
}

} // namespace millrace::cuda
