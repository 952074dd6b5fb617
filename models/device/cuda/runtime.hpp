// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The CUDA runtime, as far as it is needed here, with owners and exceptions.
/// This folder sees the CUDA runtime alone: no LibTorch, and as C++17 nothing
/// of the node's own, for the LibTorch plugin is made with it.
/// https://docs.nvidia.com/cuda/cuda-runtime-api/

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

namespace millrace::cuda {

/// What a call of CUDA failed with.
class failure : public std::runtime_error {
public:
  failure(cudaError_t code, const char* what);

  cudaError_t code() const { return code_; }

private:
  cudaError_t code_;
};

/// Throws a failure unless that went well: "copying to the GPU: out of memory
/// (2)".
void check(cudaError_t code, const char* what);

/// Whether a process that got this can do nothing more on its GPU: it has to be
/// another process.
bool loses_context(cudaError_t code);

/// A stream of its own, which does not wait for the default one.
class stream {
public:
  stream();
  ~stream();
  stream(stream&& x) noexcept : handle_(std::exchange(x.handle_, nullptr)) {}
  stream& operator=(stream&& x) noexcept {
    std::swap(handle_, x.handle_);
    return *this;
  }

  cudaStream_t get() const { return handle_; }

private:
  cudaStream_t handle_ = nullptr;
};

/// A point in a stream's work, without its time.
class event {
public:
  event();
  ~event();
  event(event&& x) noexcept : handle_(std::exchange(x.handle_, nullptr)) {}
  event& operator=(event&& x) noexcept {
    std::swap(handle_, x.handle_);
    return *this;
  }

  /// That is reached when all that the stream was given so far is done.
  void record(cudaStream_t in);

  /// What the stream is given from now on waits for it.
  void hold(cudaStream_t other) const;

  bool is_reached() const;

  /// Waits for it: so long with the processor, which takes 7 us less than to be
  /// woken by the driver, then without.
  void wait(std::chrono::nanoseconds busy = std::chrono::milliseconds{1}) const;

private:
  cudaEvent_t handle_ = nullptr;
};

/// Memory that the current GPU reads and writes: its own or, page-locked, the
/// host's, which it reaches over the bus under the same address. At least
/// 256-byte aligned.
class memory {
public:
  memory() = default;
  static memory of_gpu(size_t bytes);
  static memory of_host(size_t bytes);
  ~memory();
  memory(memory&& x) noexcept { *this = std::move(x); }
  memory& operator=(memory&& x) noexcept {
    std::swap(data_, x.data_);
    std::swap(size_, x.size_);
    std::swap(on_host_, x.on_host_);
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
