// SPDX-License-Identifier: Apache-2.0

/// \file
/// For a LibTorch without CUDA, or a build without CUDA's toolkit: stubs.
#include "models/backend/torch/gpu_passes.hpp"

namespace millrace {

struct gpu_passes::state {};

gpu_passes::gpu_passes(const millrace_place&) {
  throw std::runtime_error("this backend can use no GPU");
}

gpu_passes::~gpu_passes() = default;

c10::Device gpu_passes::device() const {
  return at::kCPU;
}

gpu_passes::tensors
gpu_passes::place(const std::vector<const millrace_tensor*>&) {
  return {};
}

void gpu_passes::arrive(const char*, size_t) {
}

void gpu_passes::await(size_t, size_t) const {
}

void gpu_passes::give_up() {
}

void gpu_passes::record() {
}

void gpu_passes::run(const pass_order&) {
}

uint64_t gpu_passes::memory() const {
  return 0;
}

int gpu_failure_kind(const std::exception&) {
  return millrace_failed;
}

const millrace_gpu_calls* gpu_calls(decltype(millrace_gpu_calls::arrive),
                                    decltype(millrace_gpu_calls::give_up),
                                    decltype(millrace_gpu_calls::memory)) {
  return nullptr;
}

} // namespace millrace
