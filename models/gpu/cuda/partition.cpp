// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/cuda/partition.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include <cuda.h>

namespace millrace::cuda {

namespace {

/// A function of the driver, found at run time: hosts without a GPU have none.
template <class F>
F* driver_call(const char* name) {
  constexpr unsigned version = 12050;
  void* out = nullptr;
  cudaDriverEntryPointQueryResult found{};
  auto code = cudaGetDriverEntryPointByVersion(name, &out, version,
                                               cudaEnableDefault, &found);
  if (code != cudaSuccess || found != cudaDriverEntryPointSuccess)
    throw failure{code == cudaSuccess ? cudaErrorNotSupported : code,
                  "partitions of a GPU (which need a driver of CUDA 12.5)"};
  return reinterpret_cast<F*>(out);
}

void check_driver(CUresult code, const char* what) {
  // For these calls the runtime's error codes equal the driver's.
  check(static_cast<cudaError_t>(code), what);
}

struct driver {
  decltype(cuDeviceGetDevResource)* resources =
    driver_call<decltype(cuDeviceGetDevResource)>("cuDeviceGetDevResource");
  decltype(cuDevSmResourceSplitByCount)* split =
    driver_call<decltype(cuDevSmResourceSplitByCount)>(
      "cuDevSmResourceSplitByCount");
  decltype(cuDevResourceGenerateDesc)* describe =
    driver_call<decltype(cuDevResourceGenerateDesc)>(
      "cuDevResourceGenerateDesc");
  decltype(cuGreenCtxCreate)* create =
    driver_call<decltype(cuGreenCtxCreate)>("cuGreenCtxCreate");
  decltype(cuGreenCtxDestroy)* destroy =
    driver_call<decltype(cuGreenCtxDestroy)>("cuGreenCtxDestroy");
  decltype(cuGreenCtxStreamCreate)* make_stream =
    driver_call<decltype(cuGreenCtxStreamCreate)>("cuGreenCtxStreamCreate");
};

const driver& the_driver() {
  static const driver out;
  return out;
}

} // namespace

partition_steps partition_steps_of(int capability) {
  if (capability >= 9)
    return {8, 8};
  return capability == 8 ? partition_steps{4, 2} : partition_steps{2, 2};
}

unsigned multiprocessors_for(double percent, unsigned all,
                             const partition_steps& how) {
  auto wanted = static_cast<unsigned>(
    std::lround(percent / 100 * static_cast<double>(all)));
  auto steps = (wanted + how.step - 1) / how.step;
  return std::min(std::max(steps * how.step, how.least), all);
}

unsigned used_multiprocessors::take(unsigned count, unsigned all) {
  std::lock_guard guard{mutex_};
  unsigned begin = 0;
  for (auto& [first, n] : used_) {
    if (first >= begin + count)
      break;
    begin = std::max(begin, first + n);
  }
  if (begin + count > all)
    begin = 0;
  used_.emplace(begin, count);
  return begin;
}

void used_multiprocessors::give_back(unsigned begin, unsigned count) {
  std::lock_guard guard{mutex_};
  auto [i, end] = used_.equal_range(begin);
  i = std::find_if(i, end, [&](auto& x) { return x.second == count; });
  if (i != end)
    used_.erase(i);
}

struct partition::parts {
  ~parts() {
    for (auto x : streams)
      static_cast<void>(cudaStreamDestroy(x));
    if (context != nullptr)
      static_cast<void>(the_driver().destroy(context));
  }

  CUgreenCtx context = nullptr;
  std::vector<cudaStream_t> streams;
};

namespace {

/// The current GPU, with a context.
int open_gpu() {
  int gpu = 0;
  check(cudaGetDevice(&gpu), "choosing a GPU");
  check(cudaFree(nullptr), "opening a GPU");
  return gpu;
}

CUdevResource multiprocessors_of_gpu(int gpu) {
  CUdevResource out{};
  check_driver(the_driver().resources(gpu, &out, CU_DEV_RESOURCE_TYPE_SM),
               "asking for multiprocessors");
  return out;
}

} // namespace

partition::partition(unsigned begin, unsigned count)
  : parts_(std::make_unique<parts>()) {
  auto& call = the_driver();
  auto gpu = open_gpu();
  auto left = multiprocessors_of_gpu(gpu);
  auto take = [&](unsigned n) {
    if (n >= left.sm.smCount)
      return left;
    CUdevResource taken{}, rest{};
    unsigned groups = 1;
    check_driver(call.split(&taken, &groups, &left, &rest, 0, n),
                 "partitioning a GPU");
    left = rest;
    return taken;
  };
  if (begin > 0)
    take(begin);
  auto mine = take(count);
  CUdevResourceDesc what{};
  check_driver(call.describe(&what, &mine, 1), "partitioning a GPU");
  check_driver(
    call.create(&parts_->context, what, gpu, CU_GREEN_CTX_DEFAULT_STREAM),
    "partitioning a GPU");
}

partition::~partition() = default;

unsigned partition::all_multiprocessors() {
  return multiprocessors_of_gpu(open_gpu()).sm.smCount;
}

unsigned partition::multiprocessors_of(double percent) {
  int gpu = 0, capability = 0;
  check(cudaGetDevice(&gpu), "choosing a GPU");
  check(
    cudaDeviceGetAttribute(&capability, cudaDevAttrComputeCapabilityMajor, gpu),
    "asking a GPU");
  return multiprocessors_for(percent, all_multiprocessors(),
                             partition_steps_of(capability));
}

cudaStream_t partition::make_stream() {
  CUstream out = nullptr;
  check_driver(
    the_driver().make_stream(&out, parts_->context, CU_STREAM_NON_BLOCKING, 0),
    "making a stream");
  parts_->streams.push_back(out);
  return out;
}

partitions::slice partitions::take(double percent) {
  auto all = partition::all_multiprocessors();
  slice out;
  out.count = partition::multiprocessors_of(percent);
  out.begin = used_.take(out.count, all);
  try {
    std::lock_guard guard{mutex_};
    auto& there = places_[{out.begin, out.count}];
    if (!there.part)
      there.part = std::make_unique<partition>(out.begin, out.count);
    if (there.idle.empty()) {
      out.stream = there.part->make_stream();
    } else {
      out.stream = there.idle.back();
      there.idle.pop_back();
    }
    return out;
  } catch (...) {
    used_.give_back(out.begin, out.count);
    throw;
  }
}

void partitions::give_back(const slice& returned) {
  used_.give_back(returned.begin, returned.count);
  std::lock_guard guard{mutex_};
  places_[{returned.begin, returned.count}].idle.push_back(returned.stream);
}

} // namespace millrace::cuda
