// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/cuda/runtime.hpp"

namespace millrace::cuda {

failure::failure(cudaError_t code, const char* what)
  : std::runtime_error(std::string{what} + ": " + cudaGetErrorString(code)
                       + " (CUDA error " + std::to_string(code) + ")"),
    code_(code) {
}

void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess)
    return;
  static_cast<void>(cudaGetLastError()); // clears the error for the next call
  throw failure{code, what};
}

bool loses_context(cudaError_t code) {
  switch (code) {
  case cudaErrorIllegalAddress:
  case cudaErrorAssert:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable:
  case cudaErrorContextIsDestroyed:
  case cudaErrorMpsClientTerminated:
  case cudaErrorDevicesUnavailable:
  case cudaErrorUnknown:
    return true;
  default:
    return false;
  }
}

stream::stream() {
  check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking),
        "making a stream");
}

stream::~stream() {
  if (handle_ != nullptr)
    static_cast<void>(cudaStreamDestroy(handle_));
}

event::event() {
  check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming
                                             | cudaEventBlockingSync),
        "making an event");
}

event::~event() {
  if (handle_ != nullptr)
    static_cast<void>(cudaEventDestroy(handle_));
}

void event::record(cudaStream_t in) {
  check(cudaEventRecord(handle_, in), "recording an event");
}

void event::hold(cudaStream_t other) const {
  check(cudaStreamWaitEvent(other, handle_, 0), "waiting for an event");
}

bool event::is_reached() const {
  auto state = cudaEventQuery(handle_);
  if (state == cudaErrorNotReady) {
    // The code cudaErrorNotReady is recorded as an error, too.
    static_cast<void>(cudaGetLastError());
    return false;
  }
  check(state, "running on the GPU");
  return true;
}

void event::wait(std::chrono::nanoseconds busy) const {
  using clock = std::chrono::steady_clock;
  constexpr auto often = std::chrono::microseconds{20};
  constexpr auto pause = std::chrono::microseconds{3};
  auto begin = clock::now();
  auto state = cudaEventQuery(handle_);
  for (auto now = begin; state == cudaErrorNotReady && now < begin + busy;
       state = cudaEventQuery(handle_)) {
    // Each query takes a lock that kernel launches need, too.
    auto until = now + (now < begin + often ? pause / 10 : pause);
    while ((now = clock::now()) < until)
      ;
  }
  if (state == cudaErrorNotReady) {
    // The code cudaErrorNotReady is recorded as an error, too.
    static_cast<void>(cudaGetLastError());
    state = cudaEventSynchronize(handle_);
  }
  check(state, "running on the GPU");
}

memory memory::of_gpu(size_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes), "taking memory of the GPU");
  return {data, bytes, false};
}

memory memory::of_host(size_t bytes) {
  void* data = nullptr;
  check(cudaHostAlloc(&data, bytes, cudaHostAllocMapped),
        "taking page-locked memory");
  return {data, bytes, true};
}

memory::~memory() {
  if (data_ != nullptr)
    static_cast<void>(on_host_ ? cudaFreeHost(data_) : cudaFree(data_));
}

} // namespace millrace::cuda
