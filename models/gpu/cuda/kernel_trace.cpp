// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/cuda/kernel_trace.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_occupancy.h>
#include <cupti.h>
#include <dlfcn.h>

#include "models/gpu/cuda/runtime.hpp"

namespace millrace::cuda {

namespace {

/// CUPTI, opened at run time: only traces need it.
struct cupti {
  static cupti& get() {
    static cupti out;
    return out;
  }

  template <class F>
  F* find(const char* name) {
    auto* out = ::dlsym(library, name);
    if (out == nullptr)
      throw std::runtime_error(std::string{"CUPTI has no "} + name);
    return reinterpret_cast<F*>(out);
  }

  static void* open() {
    auto name = "libcupti.so." + std::to_string(CUDART_VERSION / 1000);
    for (auto& x : {name, "/usr/local/cuda/lib64/" + name})
      if (auto* out = ::dlopen(x.c_str(), RTLD_NOW | RTLD_LOCAL))
        return out;
    throw std::runtime_error(
      std::string{"kernels cannot be traced without CUPTI: "} + ::dlerror());
  }

  void* library = open();
  decltype(cuptiActivityRegisterCallbacks)* on_buffers =
    find<decltype(cuptiActivityRegisterCallbacks)>(
      "cuptiActivityRegisterCallbacks");
  decltype(cuptiActivityEnable)* enable =
    find<decltype(cuptiActivityEnable)>("cuptiActivityEnable");
  decltype(cuptiActivityDisable)* disable =
    find<decltype(cuptiActivityDisable)>("cuptiActivityDisable");
  decltype(cuptiActivityFlushAll)* flush =
    find<decltype(cuptiActivityFlushAll)>("cuptiActivityFlushAll");
  decltype(cuptiActivityGetNextRecord)* next =
    find<decltype(cuptiActivityGetNextRecord)>("cuptiActivityGetNextRecord");
};

void check_cupti(CUptiResult x, const char* what) {
  if (x != CUPTI_SUCCESS)
    throw std::runtime_error(std::string{what} + ": CUPTI error "
                             + std::to_string(x));
}

/// A kernel with its name.
struct noted_kernel {
  std::string name;
  millrace_kernel what;
};

/// The kernels recorded so far.
struct notes {
  std::mutex mutex;
  std::vector<noted_kernel> kernels; ///< guarded
};

notes& the_notes() {
  static auto* out = new notes;
  return *out;
}

constexpr size_t buffer_size = 4 << 20;
constexpr size_t alignment = 8; // required by CUPTI

void CUPTIAPI give_buffer(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(alignment, buffer_size));
  *size = *buffer != nullptr ? buffer_size : 0;
  *most = 0;
}

/// How many blocks fit on a multiprocessor, by NVIDIA's own calculator.
uint32_t resident_blocks(const CUpti_ActivityKernel10& x) {
  static const auto device = [] {
    cudaDeviceProp p{};
    int gpu = 0;
    static_cast<void>(cudaGetDevice(&gpu));
    static_cast<void>(cudaGetDeviceProperties(&p, gpu));
    return cudaOccDeviceProp{p};
  }();
  cudaOccFuncAttributes f{};
  f.maxThreadsPerBlock = device.maxThreadsPerBlock;
  f.numRegs = x.registersPerThread;
  f.sharedSizeBytes = static_cast<size_t>(x.staticSharedMemory);
  f.partitionedGCConfig = PARTITIONED_GC_OFF;
  f.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  f.maxDynamicSharedSizeBytes = static_cast<size_t>(x.dynamicSharedMemory);
  cudaOccDeviceState how{};
  cudaOccResult out{};
  auto threads = x.blockX * x.blockY * x.blockZ;
  auto done = cudaOccMaxActiveBlocksPerMultiprocessor(
    &out, &device, &f, &how, threads,
    static_cast<size_t>(x.dynamicSharedMemory));
  return done == CUDA_OCC_SUCCESS
           ? static_cast<uint32_t>(out.activeBlocksPerMultiprocessor)
           : 0;
}

void note(const CUpti_ActivityKernel10& x) {
  auto count = [](int32_t n) { return static_cast<uint32_t>(n); };
  auto bytes = [](int32_t n) { return static_cast<uint64_t>(n); };
  millrace_kernel what{nullptr,
                       x.start,
                       x.end,
                       {count(x.gridX), count(x.gridY), count(x.gridZ)},
                       {count(x.blockX), count(x.blockY), count(x.blockZ)},
                       x.registersPerThread,
                       bytes(x.staticSharedMemory),
                       bytes(x.dynamicSharedMemory),
                       resident_blocks(x)};
  auto& to = the_notes();
  std::lock_guard guard{to.mutex};
  to.kernels.push_back({x.name != nullptr ? x.name : "", what});
}

void CUPTIAPI take_buffer(CUcontext, uint32_t, uint8_t* buffer, size_t,
                          size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cupti::get().next(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
      note(*reinterpret_cast<CUpti_ActivityKernel10*>(record));
  std::free(buffer);
}

} // namespace

void begin_kernel_trace() {
  auto& api = cupti::get();
  static std::once_flag once;
  std::call_once(once, [&] {
    check_cupti(api.on_buffers(give_buffer, take_buffer), "tracing kernels");
  });
  {
    std::lock_guard guard{the_notes().mutex};
    the_notes().kernels.clear();
  }
  check_cupti(api.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
              "tracing kernels");
}

void end_kernel_trace(const std::function<void(const millrace_kernel&)>& to) {
  auto& api = cupti::get();
  check(cudaDeviceSynchronize(), "running on the GPU");
  check_cupti(api.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "tracing kernels");
  check_cupti(api.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL),
              "tracing kernels");
  std::vector<noted_kernel> all;
  {
    std::lock_guard guard{the_notes().mutex};
    all.swap(the_notes().kernels);
  }
  std::sort(all.begin(), all.end(),
            [](auto& a, auto& b) { return a.what.start_ns < b.what.start_ns; });
  auto origin = all.empty() ? 0 : all.front().what.start_ns;
  for (auto& [name, x] : all) {
    x.name = name.c_str();
    x.start_ns -= origin; // relative times: a double would round absolute ones
    x.end_ns -= origin;
    to(x);
  }
}

} // namespace millrace::cuda
