// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// Wrappers of the CUDA runtime with ownership and exceptions. This folder uses
/// the CUDA runtime alone, not LibTorch. It is C++17 and uses no code of the
/// node, for the LibTorch plugin is built with it.
/// https://docs.nvidia.com/cuda/cuda-runtime-api/

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

namespace millrace::cuda {

/// The error of a call of CUDA.
class failure : public std::runtime_error {
public:
  failure(cudaError_t code, const char* what);

  cudaError_t code() const { return code_; }

private:
  cudaError_t code_;
};

/// Throws a failure unless the call succeeded: "copying to the GPU: out of
/// memory (2)".
void check(cudaError_t code, const char* what);

/// Whether a process cannot use its GPU any longer after this error.
bool loses_context(cudaError_t code);

/// A stream that does not wait for the default stream.
class stream {
public:
  stream();
  ~stream();
  stream(stream&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}
  stream& operator=(stream&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  cudaStream_t get() const { return handle_; }

private:
  cudaStream_t handle_ = nullptr;
};

/// A point in a stream's work, without a timestamp.
class event {
public:
  event();
  ~event();
  event(event&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)) {}
  event& operator=(event&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  /// Makes the event complete when the stream's present work is done.
  void record(cudaStream_t in);

  /// Makes later work of the other stream wait for the event.
  void hold(cudaStream_t other) const;

  bool is_reached() const;

  /// Waits for the event: busy for this time, which saves the 7 us of a wake-up
  /// by the driver, then blocked.
  void wait(std::chrono::nanoseconds busy = std::chrono::milliseconds{1}) const;

private:
  cudaEvent_t handle_ = nullptr;
};

/// Memory that the current GPU reads and writes: its own or, page-locked, the
/// host's, reached over the bus under the same address. At least 256-byte
/// aligned.
class memory {
public:
  memory() = default;
  static memory of_gpu(size_t bytes);
  static memory of_host(size_t bytes);
  ~memory();
  memory(memory&& other) noexcept { *this = std::move(other); }
  memory& operator=(memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(on_host_, other.on_host_);
    return *this;
  }

  char* data() const { return data_; }
  size_t size() const { return size_; }
  bool is_on_host() const { return on_host_; }

private:
  memory(void* data, size_t size, bool on_host)
    : data_(static_cast<char*>(data)),
      size_(size),
      on_host_(on_host) {}

  char* data_ = nullptr;
  size_t size_ = 0;
  bool on_host_ = false;
};

} // namespace millrace::cuda
