// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "millrace/bench/bench.hpp"
#include "millrace/bench/measured_device.hpp"
#include "models/profile.hpp"

namespace millrace {

/// What `bench gpu` takes.
struct gpu_options : served_options {
  std::string files = "build/examples";
  int gpu = 0;
  std::vector<std::string> only; ///< parts; none: all
  std::string profile;           ///< file to add what was measured to
  std::string counters;          ///< file of what a profiler counted
  std::string mps;               ///< where a daemon of NVIDIA's MPS listens
  int cycles = 1000;
};

/// What LibTorch alone does.
struct bare_call {
  double seconds = 0;
  double rate = 0; ///< calls a second, one after the other
};

/// A model and a batch for it.
struct workload {
  std::string name;
  std::shared_ptr<const bundle> content;
  size_t rows = 1;
  tensor_list inputs;

  std::string label() const { return name + " x" + std::to_string(rows); }
};

/// What the parts of `bench gpu` stand on, and what they have found.
class gpu_environment {
public:
  /// Errors: unavailable without a GPU of that number, or a LibTorch for it; as
  /// read_profiles, of the profile that is to be added to.
  static result<gpu_environment> open(const gpu_options& x);

  const gpu_options& options() const { return options_; }
  backend& runner() const { return *runner_; }
  const gpu_info& gpu() const { return gpu_; }

  /// One of the bundles, with a batch of zeros. Errors: as bundle_store::open.
  result<workload> find(const std::string& name, size_t rows) const;

  /// On its own GPU, whichever `how` names.
  result<std::unique_ptr<measured_device>>
  device(isolation_mode where, gpu_place how, uint32_t lanes = 3) const;

  /// What the bare program prints for these, on that GPU. Errors: unavailable.
  result<std::vector<double>>
  ask_bare(std::vector<std::string> arguments) const;
  result<bare_call> call_bare(const workload& x) const;

  /// As the catalogue has it: h200 of "NVIDIA H200", v100 of
  /// "Tesla V100-SXM2-16GB".
  std::string kind() const;

  profile& profile_of(const std::string& model);
  result<void> write_profile() const;

  void add(bench_row x) { found_.results.push_back(std::move(x)); }
  bench_report& found() { return found_; }

private:
  explicit gpu_environment(const gpu_options& x) : options_(x) {}

  gpu_options options_;
  std::shared_ptr<backend> runner_;
  gpu_info gpu_;
  std::vector<profile> profiles_;
  bench_report found_{"gpu", {}};
};

/// Which kernels a batch has, and what they leave of the GPU: rows, and points
/// of a profile. Sizes for which there is no memory are left out (IF-47).
result<void> measure_kernels(gpu_environment& on);

/// Two models at a time, by how they share the GPU: each alone, then both.
result<void> measure_shares(gpu_environment& on);

} // namespace millrace
