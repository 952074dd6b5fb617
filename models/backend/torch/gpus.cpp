// SPDX-License-Identifier: Apache-2.0
#include "models/backend/torch/gpus.hpp"

#include <cstdio>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <map>
#include <mutex>
#include <set>
#include <string_view>

#include <c10/cuda/CUDAGuard.h>

#include "models/backend/torch/gpu_passes.hpp"
#include "models/backend/torch/plugin_calls.hpp"
#include "models/gpu/cuda/kernel_trace.hpp"

namespace millrace {

using cuda::check;

namespace {

int count_gpus() {
  int out = 0;
  check(cudaGetDeviceCount(&out), "looking for GPUs");
  return out;
}

c10::DeviceIndex index_of(int gpu) {
  return static_cast<c10::DeviceIndex>(gpu);
}

void describe(int gpu, millrace_gpu& out) {
  cudaDeviceProp p{};
  check(cudaGetDeviceProperties(&p, gpu), "asking a GPU");
  std::snprintf(out.name, sizeof out.name, "%s", p.name);
  out.major = p.major;
  out.minor = p.minor;
  out.multiprocessors = p.multiProcessorCount;
  out.threads = p.maxThreadsPerMultiProcessor;
  out.blocks = p.maxBlocksPerMultiProcessor;
  out.registers = p.regsPerMultiprocessor;
  out.shared_memory = p.sharedMemPerMultiprocessor;
  c10::cuda::CUDAGuard guard{index_of(gpu)};
  size_t free = 0, all = 0;
  check(cudaMemGetInfo(&free, &all), "asking a GPU");
  out.memory = all;
  out.free = free;
}

int list_gpus(millrace_gpu* out, uint32_t capacity, uint32_t* count,
              millrace_error* failed) {
  return guarded(failed, [&] {
    auto n = std::min(static_cast<uint32_t>(count_gpus()), capacity);
    for (uint32_t i = 0; i < n; ++i)
      describe(static_cast<int>(i), out[i]);
    *count = n;
  });
}

/// Libraries that are opened by name on first use.
constexpr std::string_view opened_late[] = {"libcudnn", "libnvrtc",
                                            "libnvJitLink", "libcaffe2_nvrtc"};

bool is_opened_late(const std::string& file) {
  auto is_library = file.find(".so") != std::string::npos
                    && file.find(".alt.") == std::string::npos;
  return is_library
         && std::any_of(std::begin(opened_late), std::end(opened_late),
                        [&](auto x) { return file.rfind(x, 0) == 0; });
}

/// The folders of all libraries in this process.
std::set<std::filesystem::path> library_folders() {
  std::set<std::filesystem::path> out;
  ::dl_iterate_phdr(
    [](dl_phdr_info* x, size_t, void* to) {
      auto file = std::filesystem::path{x->dlpi_name};
      auto name = file.filename().string();
      for (auto one : {"libcudnn", "libcublas", "libnvrtc", "libtorch_cuda"})
        if (name.rfind(one, 0) == 0)
          static_cast<std::set<std::filesystem::path>*>(to)->insert(
            file.parent_path());
      return 0;
    },
    &out);
  return out;
}

/// Loads all libraries that may be needed later, because a loaded library is
/// found without opening a file. Failures are ignored here; they recur on use.
int prepare(millrace_error* failed) {
  return guarded(failed, [] {
    for (auto& folder : library_folders())
      for (auto& x : std::filesystem::directory_iterator{folder})
        if (is_opened_late(x.path().filename().string()))
          static_cast<void>(::dlopen(x.path().c_str(), RTLD_LAZY | RTLD_LOCAL));
  });
}

/// Runs products and convolutions, so that they open their libraries.
void touch_libraries(int gpu) {
  auto options = at::TensorOptions().device(at::kCUDA, index_of(gpu));
  auto image = at::ones({2, 3, 64, 64}, options);
  auto w = at::ones({16, 3, 7, 7}, options);
  auto y = at::conv2d(image, w, {}, 2, 3).relu();
  y = at::conv2d(y, at::ones({16, 16, 3, 3}, options), {}, 1, 1).flatten(1);
  at::matmul(y, at::ones({y.size(1), 8}, options)).softmax(1).sum().item();
  for (auto type : {at::kHalf, at::kBFloat16}) {
    auto z = at::ones({8, 8}, options.dtype(type));
    at::addmm(z, z, z);
    at::bmm(z.view({2, 4, 8}), z.view({2, 8, 4}));
    at::conv2d(image.to(type), w.to(type), {}, 2, 3);
  }
  check(cudaDeviceSynchronize(), "opening a GPU");
}

/// Throws if MPS does not serve this process: CUDA would silently give it time
/// slices of the whole GPU. Before 12.3 CUDA has no such query.
void expect_mps([[maybe_unused]] int gpu) {
#if CUDART_VERSION >= 12030
  int serves = 0;
  check(cudaDeviceGetAttribute(&serves, cudaDevAttrMpsEnabled, gpu),
        "asking for MPS");
  if (serves == 0)
    throw std::runtime_error(
      "sharing is mps, and NVIDIA's MPS does not serve this process; expected"
      " nvidia-cuda-mps-control -d to run, and the node to have the same"
      " CUDA_MPS_PIPE_DIRECTORY, if any");
#endif
}

int open_gpu(const millrace_place* place, millrace_error* failed) {
  return guarded(failed, [&] {
    c10::InferenceMode inference;
    if (prepare(failed) != 0)
      throw std::runtime_error(failed->text);
    auto& gpu = shared_gpu(place->gpu);
    if (place->by_mps != 0)
      expect_mps(place->gpu);
    touch_libraries(place->gpu);
    // Opens the driver's files for partitions.
    if (place->sharing == millrace_partitioned)
      gpu.partitions.give_back(gpu.partitions.take(place->share));
    // This memory belongs to no stage.
    c10::cuda::CUDACachingAllocator::emptyCache();
  });
}

int pin(void* begin, uint64_t bytes, millrace_error* failed) {
  return guarded(
    failed,
    [&] {
      check(cudaHostRegister(begin, bytes, cudaHostRegisterPortable),
            "page-locking memory");
      pinned_memory().add(begin, bytes);
    },
    gpu_failure_kind);
}

void unpin(void* begin) {
  if (pinned_memory().remove(begin))
    static_cast<void>(cudaHostUnregister(begin));
}

int trace(void* self, void (*sink)(void* self, const millrace_kernel* x),
          millrace_error* failed) {
  return guarded(failed, [&] {
    if (sink == nullptr)
      return cuda::begin_kernel_trace();
    cuda::end_kernel_trace([&](auto& x) { sink(self, &x); });
  });
}

} // namespace

gpu_environment& shared_gpu(int number) {
  static std::mutex mutex;
  // Never destroyed, as in pinned_memory().
  static auto* all = new std::map<int, gpu_environment>;
  std::lock_guard guard{mutex};
  auto count = count_gpus();
  if (number < 0 || number >= count)
    throw std::runtime_error("there is no GPU " + std::to_string(number)
                             + "; there are " + std::to_string(count));
  check(cudaSetDevice(number), "choosing a GPU");
  return (*all)[number];
}

cuda::pinned_ranges& pinned_memory() {
  // Outlives static objects: callers may hold it.
  static auto* out = new cuda::pinned_ranges;
  return *out;
}

int gpu_failure_kind(const std::exception& thrown) {
  static_cast<void>(cudaGetLastError());
  if (cuda::loses_context(cudaStreamQuery(cudaStreamLegacy)))
    return millrace_gpu_is_lost;
  auto* ours = dynamic_cast<const cuda::failure*>(&thrown);
  std::string text = thrown.what();
  auto no_memory =
    dynamic_cast<const c10::OutOfMemoryError*>(&thrown) != nullptr
    || (ours != nullptr && ours->code() == cudaErrorMemoryAllocation)
    || text.find("CUDA out of memory") != std::string::npos
    || text.find("ALLOC_FAILED") != std::string::npos;
  return no_memory ? millrace_no_memory : millrace_failed;
}

const millrace_gpu_calls*
gpu_calls(decltype(millrace_gpu_calls::arrive) arrive,
          decltype(millrace_gpu_calls::give_up) give_up,
          decltype(millrace_gpu_calls::memory) memory) {
  static const millrace_gpu_calls out{list_gpus, prepare, open_gpu, pin,  unpin,
                                      arrive,    give_up, memory,   trace};
  return &out;
}

} // namespace millrace
