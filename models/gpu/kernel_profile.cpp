// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/kernel_profile.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace millrace {

namespace {

uint64_t product(const std::array<uint32_t, 3>& x) {
  return uint64_t{x[0]} * x[1] * x[2];
}

/// The number of blocks that a limit allows if each takes `each`; no limit if
/// `each` is 0.
uint64_t bound(uint64_t all, uint64_t each) {
  return each == 0 ? UINT64_MAX : all / each;
}

/// Blocks that fit on a multiprocessor at once, at least one. Ignores the
/// granularity at which registers and shared memory are allocated.
uint64_t resident_blocks(const kernel_run& x, const gpu_info& gpu) {
  auto threads = product(x.block);
  auto out = std::min({bound(gpu.threads, threads),
                       bound(gpu.shared_memory.value, x.shared_memory.value),
                       bound(gpu.registers, threads * x.registers),
                       uint64_t{gpu.blocks}});
  return std::max<uint64_t>(out, 1);
}

} // namespace

double sm_utilisation(const kernel_run& kernel, const gpu_info& gpu) {
  if (gpu.multiprocessors == 0)
    return 0;
  auto each = resident_blocks(kernel, gpu);
  auto needed = (product(kernel.grid) + each - 1) / each;
  return std::min(100.,
                  100. * static_cast<double>(needed) / gpu.multiprocessors);
}

double launch_occupancy(const kernel_run& kernel, const gpu_info& gpu) {
  auto slots = double{1} * gpu.threads * gpu.multiprocessors;
  if (slots == 0)
    return 0;
  auto at_once =
    std::min<double>(static_cast<double>(product(kernel.grid)),
                     double{1} * kernel.resident * gpu.multiprocessors);
  return std::min(100., 100 * at_once
                          * static_cast<double>(product(kernel.block)) / slots);
}

kernel_heights
heights_of(std::span<const kernel_run> xs,
           const std::function<double(const kernel_run&)>& height,
           double most) {
  struct change {
    double at;
    double by;
  };
  std::vector<change> changes;
  for (auto& x : xs) {
    auto h = height(x);
    changes.push_back({x.start, h});
    changes.push_back({x.end, -h});
  }
  if (changes.empty())
    return {};
  std::sort(changes.begin(), changes.end(),
            [](auto& a, auto& b) { return a.at < b.at; });
  kernel_heights out;
  double now = 0, area = 0;
  auto last = changes.front().at;
  for (auto& x : changes) {
    if (x.at > last) {
      auto high = std::clamp(now, 0., most);
      out.highest = std::max(out.highest, high);
      area += high * (x.at - last);
    }
    last = x.at;
    now += x.by;
  }
  auto span = last - changes.front().at;
  out.weighted = span > 0 ? area / span : 0;
  return out;
}

} // namespace millrace
