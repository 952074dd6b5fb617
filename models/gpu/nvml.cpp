// SPDX-License-Identifier: Apache-2.0
#include "models/gpu/nvml.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <optional>

#include "runtime/text.hpp"

namespace millrace {

namespace {

// Declarations of nvml.h, which not every CUDA toolkit has. They have not
// changed since its first version.
using nvml_device = void*;
struct nvml_memory {
  unsigned long long total, free, used;
};
struct nvml_utilization {
  unsigned gpu, memory; // percent
};
constexpr int nvml_success = 0;
constexpr int multiprocessor_clock = 1;

/// The library, which comes with the driver and is opened on first use.
class nvml {
public:
  static const nvml* get() {
    static const nvml only;
    return only.usable_ ? &only : nullptr;
  }

  int (*count)(unsigned*) = nullptr;
  int (*handle)(unsigned, nvml_device*) = nullptr;
  int (*name)(nvml_device, char*, unsigned) = nullptr;
  int (*uuid)(nvml_device, char*, unsigned) = nullptr;
  int (*utilization)(nvml_device, nvml_utilization*) = nullptr;
  int (*memory)(nvml_device, nvml_memory*) = nullptr;
  int (*clock)(nvml_device, int, unsigned*) = nullptr;
  int (*top_clock)(nvml_device, int, unsigned*) = nullptr;
  int (*power)(nvml_device, unsigned*) = nullptr;
  int (*power_limit)(nvml_device, unsigned*) = nullptr;

private:
  nvml() {
    library_ = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr)
      return;
    int (*init)() = nullptr;
    usable_ = find(init, "nvmlInit_v2") && init() == nvml_success
              && find(count, "nvmlDeviceGetCount_v2")
              && find(handle, "nvmlDeviceGetHandleByIndex_v2")
              && find(name, "nvmlDeviceGetName")
              && find(uuid, "nvmlDeviceGetUUID")
              && find(utilization, "nvmlDeviceGetUtilizationRates")
              && find(memory, "nvmlDeviceGetMemoryInfo")
              && find(clock, "nvmlDeviceGetClockInfo")
              && find(top_clock, "nvmlDeviceGetMaxClockInfo")
              && find(power, "nvmlDeviceGetPowerUsage")
              && find(power_limit, "nvmlDeviceGetEnforcedPowerLimit");
  }

  template <class F>
  bool find(F& to, const char* name_of) {
    to = reinterpret_cast<F>(::dlsym(library_, name_of));
    return to != nullptr;
  }

  void* library_ = nullptr;
  bool usable_ = false;
};

/// The number of the GPU that an entry names; nothing: none.
std::optional<size_t> number_of(std::string_view said,
                                const std::vector<std::string>& uuids) {
  if (auto number = number_in<size_t>(said))
    return *number < uuids.size() ? number : std::nullopt;
  auto begins_so = [&](auto& x) { return x.starts_with(said); };
  auto first = std::find_if(uuids.begin(), uuids.end(), begins_so);
  if (!said.starts_with("GPU-") || first == uuids.end()
      || std::any_of(first + 1, uuids.end(), begins_so))
    return std::nullopt;
  return static_cast<size_t>(first - uuids.begin());
}

gpu_reading read_one(const nvml& api, nvml_device x) {
  gpu_reading out;
  char name[96] = {};
  if (api.name(x, name, sizeof name) == nvml_success)
    out.name = name;
  if (nvml_utilization u{}; api.utilization(x, &u) == nvml_success) {
    out.busy = u.gpu / 100.;
    out.memory_busy = u.memory / 100.;
  }
  if (nvml_memory m{}; api.memory(x, &m) == nvml_success) {
    out.memory = {m.total};
    out.memory_used = {m.used};
  }
  unsigned value = 0;
  if (api.clock(x, multiprocessor_clock, &value) == nvml_success)
    out.clock = value;
  if (api.top_clock(x, multiprocessor_clock, &value) == nvml_success)
    out.top_clock = value;
  if (api.power(x, &value) == nvml_success)
    out.watts = value / 1000.;
  if (api.power_limit(x, &value) == nvml_success)
    out.most_watts = value / 1000.;
  return out;
}

} // namespace

std::vector<size_t> visible_gpus(std::string_view said,
                                 const std::vector<std::string>& uuids) {
  std::vector<size_t> out;
  for (auto x : split(said, ',')) {
    auto number = number_of(x, uuids);
    if (!number)
      break;
    out.push_back(*number);
  }
  return out;
}

gpu_readings read_gpus() {
  static std::mutex mutex;
  std::lock_guard guard{mutex};
  auto* api = nvml::get();
  unsigned n = 0;
  if (api == nullptr || api->count(&n) != nvml_success || n == 0)
    return error{ec::unavailable,
                 "no GPU is known to NVIDIA's management library"
                 " (libnvidia-ml.so.1, which comes with the driver)",
                 {}};
  std::vector<gpu_reading> all(n); // an unreadable GPU keeps its place
  std::vector<std::string> uuids(n);
  for (unsigned i = 0; i < n; ++i)
    if (nvml_device x = nullptr; api->handle(i, &x) == nvml_success) {
      all[i] = read_one(*api, x);
      char uuid[96] = {};
      if (api->uuid(x, uuid, sizeof uuid) == nvml_success)
        uuids[i] = uuid;
    }
  auto* said = std::getenv("CUDA_VISIBLE_DEVICES");
  if (said == nullptr)
    return all;
  std::vector<gpu_reading> out;
  for (auto i : visible_gpus(said, uuids))
    out.push_back(all[i]);
  if (out.empty())
    return error{ec::unavailable,
                 "CUDA_VISIBLE_DEVICES, " + shown(said) + ", leaves none of "
                   + std::to_string(all.size()) + " GPU(s)",
                 {}};
  return out;
}

} // namespace millrace
