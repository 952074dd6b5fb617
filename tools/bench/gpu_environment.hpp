// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bench/bench.hpp"
#include "bench/measured_device.hpp"
#include "models/profile.hpp"

namespace millrace {

/// Options of `millrace-bench gpu`.
struct gpu_options : served_options {
  std::string files = "build/examples";
  int gpu = 0;
  std::vector<std::string> only; ///< parts to run; empty: all
  std::string profile;           ///< file to add the measured profile to
  std::string counters;          ///< file of a profiler's counters
  std::string mps;               ///< folder of a daemon of NVIDIA's MPS
  int cycles = 1000;
};

/// The speed of LibTorch alone.
struct bare_call {
  double seconds = 0;
  double rate = 0; ///< calls per second, one after the other
};

/// A model, and a batch for the model.
struct workload {
  std::string name;
  std::shared_ptr<const bundle> content;
  size_t rows = 1;
  tensor_list inputs;

  std::string label() const { return name + " x" + std::to_string(rows); }
};

/// The environment of the parts of `millrace-bench gpu`, and their results.
class gpu_environment {
public:
  /// Errors: unavailable without a GPU of this number, or a LibTorch for GPUs;
  /// as read_profiles, for the profile to add to.
  static result<gpu_environment> open(const gpu_options& options);

  const gpu_options& options() const { return options_; }
  backend& runner() const { return *runner_; }
  const gpu_info& gpu() const { return gpu_; }

  /// A bundle, and a batch of zeros. Errors: as bundle_store::open.
  result<workload> find(const std::string& name, size_t rows) const;

  /// A device on the bench's GPU; `how` names the other settings.
  result<std::unique_ptr<measured_device>>
  device(isolation_mode where, gpu_place how, uint32_t lanes = 3) const;

  /// The output of the bare program on the bench's GPU. Errors: unavailable.
  result<std::vector<double>>
  ask_bare(std::vector<std::string> arguments) const;
  result<bare_call> call_bare(const workload& load) const;

  /// The device kind in the catalogue: h200 for "NVIDIA H200", v100 for
  /// "Tesla V100-SXM2-16GB".
  std::string kind() const;

  profile& profile_of(const std::string& model);
  result<void> write_profile() const;

  void add(bench_row row) { found_.results.push_back(std::move(row)); }
  bench_report& found() { return found_; }

private:
  explicit gpu_environment(const gpu_options& options) : options_(options) {}

  gpu_options options_;
  std::shared_ptr<backend> runner_;
  gpu_info gpu_;
  std::vector<profile> profiles_;
  bench_report found_{"gpu", {}};
};

/// Measures the kernels of a batch, and the capacity of the GPU that they leave
/// free. Adds rows, and points of a profile. Leaves out sizes without enough
/// memory (IF-47).
result<void> measure_kernels(gpu_environment& on);

/// Two models at the same time, for each kind of sharing: each alone, then
/// both.
result<void> measure_shares(gpu_environment& on);

} // namespace millrace
