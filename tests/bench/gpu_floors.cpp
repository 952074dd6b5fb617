// SPDX-License-Identifier: Apache-2.0

/// \file
/// usage: gpu_floors GPU copy
///        gpu_floors GPU [once] FILE I64|F32 SIZE...
///
/// The baseline of `millrace-bench gpu`: LibTorch alone, in minimal code.
/// `copy` prints the rate of a page-locked copy to the GPU in bytes per second.
/// With a file the program prints the median seconds of a call and the
/// sequential calls per second. A call copies its input to the GPU (from
/// ordinary memory, as from a client), computes, and copies its output back.
/// `once` makes one call for a profiler after some warm-up calls.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <torch/script.h>
#include <torch/torch.h>

#include <c10/cuda/CUDAFunctions.h>

#include <cuda_profiler_api.h>

namespace {

using clock_type = std::chrono::steady_clock;

double seconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

template <class F>
double median_of(int times, F f) {
  std::vector<double> out;
  for (int i = 0; i < times; ++i) {
    auto begin = clock_type::now();
    f();
    out.push_back(seconds_since(begin));
  }
  std::sort(out.begin(), out.end());
  return out[out.size() / 2];
}

double copy_rate() {
  constexpr int64_t bytes = int64_t{1} << 30;
  auto from = torch::zeros({bytes}, torch::kUInt8).pin_memory();
  auto to =
    torch::empty({bytes}, torch::dtype(torch::kUInt8).device(torch::kCUDA));
  to.copy_(from);
  return static_cast<double>(bytes) / median_of(7, [&] {
           to.copy_(from, true);
           torch::cuda::synchronize();
         });
}

} // namespace

int main(int n, char** argument) {
  if (n > 1) { // sets the device of torch::kCUDA
    c10::cuda::set_device(
      static_cast<c10::DeviceIndex>(std::atoi(argument[1])));
    --n, ++argument;
  }
  if (n == 2 && std::string{argument[1]} == "copy")
    return std::printf("%.6e\n", copy_rate()), 0;
  auto once = n > 1 && std::string{argument[1]} == "once";
  if (once)
    --n, ++argument;
  if (n < 4) {
    std::fprintf(stderr,
                 "usage: gpu_floors GPU copy | [once] FILE I64|F32 SIZE...\n");
    return 2;
  }
  c10::InferenceMode only_inference;
  torch::jit::setGraphExecutorOptimize(false);
  std::vector<int64_t> shape;
  for (int i = 3; i < n; ++i)
    shape.push_back(std::stoll(argument[i]));
  auto type =
    std::string{argument[2]} == "I64" ? torch::kInt64 : torch::kFloat32;
  auto model = torch::jit::load(argument[1], torch::kCUDA);
  model.eval();
  auto input = torch::zeros(shape, type);
  auto call = [&] {
    auto x = input.to(torch::kCUDA);
    model.forward({x}).toTensor().to(torch::kCPU);
  };
  for (int i = 0; i < (once ? 4 : 20); ++i)
    call();
  if (once) {
    cudaProfilerStart();
    call();
    cudaProfilerStop();
    return 0;
  }
  auto each = median_of(300, call);
  auto begin = clock_type::now();
  int calls = 0;
  for (; seconds_since(begin) < .5; ++calls)
    call();
  auto rate = calls / seconds_since(begin);
  std::printf("%.9f %.3f\n", each, rate);
}
