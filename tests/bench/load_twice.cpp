// SPDX-License-Identifier: Apache-2.0

/// \file
/// usage: load_twice FILE THREADS TYPE SIZE...
///
/// The baseline of `millrace-bench coldstart`: loads a TorchScript file and
/// runs it twice on zeros, in minimal LibTorch code. Prints the seconds of the
/// load and of both runs, without the start of this process.

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <torch/script.h>

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
    .count();
}

} // namespace

int main(int n, char** argument) {
  if (n < 5) {
    std::fprintf(stderr, "usage: load_twice FILE THREADS I64|F32 SIZE...\n");
    return 2;
  }
  at::set_num_threads(std::stoi(argument[2]));
  c10::InferenceMode only_inference;
  std::vector<int64_t> shape;
  for (int i = 4; i < n; ++i)
    shape.push_back(std::stoll(argument[i]));
  auto begin = std::chrono::steady_clock::now();
  auto model = torch::jit::load(argument[1]);
  model.eval();
  std::printf("%.6f", seconds_since(begin));
  auto type =
    std::string{argument[3]} == "I64" ? torch::kInt64 : torch::kFloat32;
  for (int i = 0; i < 2; ++i) {
    begin = std::chrono::steady_clock::now();
    model.forward({torch::zeros(shape, type)});
    std::printf(" %.6f", seconds_since(begin));
  }
  std::printf("\n");
}
