// SPDX-License-Identifier: Apache-2.0
#include <fstream>

#include "bench/gpu_environment.hpp"
#include "models/gpu/kernel_profile.hpp"

namespace millrace {

namespace {

/// A profiler's counters of one kernel, in percent.
struct counted {
  double warps = 0;     ///< achieved occupancy
  double bandwidth = 0; ///< of the GPU's memory
};

/// Reads the lines "MODEL ROWS KERNEL-COUNTERS" of this batch, in order.
std::vector<counted> counters_of(const std::string& file, const workload& x) {
  std::vector<counted> out;
  std::ifstream in{file};
  std::string model;
  size_t rows = 0;
  for (counted c; in >> model >> rows >> c.warps >> c.bandwidth;)
    if (model == x.name && rows == x.rows)
      out.push_back(c);
  return out;
}

/// Adds AO, WAO and, for PALDIA, the share of memory bandwidth that a batch
/// needs, if the profiler counted the same kernels.
void note_counters(const gpu_environment& on, const workload& x,
                   const std::vector<kernel_run>& kernels, profile_point& to) {
  auto counters = counters_of(on.options().counters, x);
  if (counters.size() != kernels.size() || kernels.empty())
    return;
  auto of = [&](double counted::*what) {
    return heights_of(kernels, [&, what](const kernel_run& k) {
      return counters[static_cast<size_t>(&k - kernels.data())].*what;
    });
  };
  auto occupancy = of(&counted::warps);
  to.metrics["ao_percent"] = occupancy.highest;
  to.metrics["wao_percent"] = occupancy.weighted;
  to.metrics["bandwidth_share"] = of(&counted::bandwidth).weighted / 100;
}

void note_kernels(gpu_environment& on, const workload& x,
                  const std::vector<kernel_run>& kernels, double seconds,
                  uint64_t memory, uint64_t peak) {
  auto wsm =
    heights_of(kernels, [&](auto& k) { return sm_utilisation(k, on.gpu()); });
  auto occupancy =
    heights_of(kernels, [&](auto& k) { return launch_occupancy(k, on.gpu()); });
  double busy = 0;
  for (auto& k : kernels)
    busy += k.end - k.start;
  auto& p = on.profile_of(x.name);
  p.points.push_back(
    {on.kind(),
     static_cast<double>(x.rows),
     {},
     {{"execute_seconds", seconds},
      {"kernel_seconds", busy},
      {"kernels", static_cast<double>(kernels.size())},
      {"memory_bytes", static_cast<double>(memory)},
      {"run_memory_bytes", static_cast<double>(peak)},
      {"wsm_percent", wsm.weighted},
      {"launch_occupancy_percent", occupancy.weighted},
      {"highest_launch_occupancy_percent", occupancy.highest}}});
  note_counters(on, x, kernels, p.points.back());
  auto count = std::to_string(kernels.size());
  on.add({x.label() + ", its " + count + " kernels at work", 1e6 * busy, "us",
          1e6 * seconds, "a batch", busy / seconds});
  on.add({x.label() + ", multiprocessors it needs (WSM)", wsm.weighted, "%",
          100, "all", wsm.weighted / 100});
  on.add({x.label() + ", warps that its launches allow", occupancy.weighted,
          "%", 100, "all", occupancy.weighted / 100});
}

/// Errors: overloaded without enough memory.
result<void> measure_batch(gpu_environment& on, const workload& x) {
  gpu_place place{on.options().gpu, gpu_sharing::time, 0, true, false};
  auto stage =
    on.runner().load(x.content, 0, x.content->info.layers.size(), place);
  if (!stage)
    return stage.failure();
  if (auto done = (*stage)->arrive(); !done)
    return done;
  constexpr int before = 5, measured = 15;
  std::vector<double> times;
  uint64_t peak = 0;
  for (int i = 0; i < before + measured; ++i) {
    auto begun = steady_now();
    auto y = (*stage)->run(x.inputs, {}, i == 0 ? &peak : nullptr);
    if (!y)
      return y.failure();
    if (i >= before)
      times.push_back(to_seconds(steady_now() - begun));
  }
  if (auto done = on.runner().gpus()->begin_trace(); !done)
    return done;
  auto y = (*stage)->run(x.inputs);
  auto kernels = on.runner().gpus()->end_trace();
  if (!y || !kernels)
    return y ? kernels.failure() : y.failure();
  note_kernels(on, x, *kernels, median(times), (*stage)->memory().value, peak);
  return {};
}

} // namespace

result<void> measure_kernels(gpu_environment& on) {
  for (auto name : {"resnet18", "bert-base"})
    for (size_t rows : {1, 2, 4, 8, 16, 32, 64, 128}) {
      auto x = on.find(name, rows);
      if (!x)
        return x.failure();
      auto done = measure_batch(on, *x);
      if (!done && done.failure().code == ec::overloaded)
        break; // larger batches do not fit either
      if (!done)
        return done;
    }
  return {};
}

} // namespace millrace
