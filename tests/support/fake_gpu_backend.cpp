// SPDX-License-Identifier: Apache-2.0

/// \file
/// A backend with two fake GPUs. Each pass returns its inputs, whatever the
/// model is. The first number of the first input selects a failure of a real
/// GPU. The name of the first layer selects when the parameters arrive: only
/// after the first pass has begun ("awaits_a_pass"), or only before
/// ("comes_first"). It can also make a pass endless ("begins_and_loops") or
/// take 1 GiB ("begins_and_eats").

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <pthread.h>
#include <time.h>

#include "models/backend/abi.h"

struct millrace_stage {
  int32_t gpu = 0;
  uint64_t parameter_bytes = 0;
  std::string first_layer;
  std::mutex mutex;
  std::condition_variable changed;
  bool has_arrived = false, is_given_up = false, has_begun = false; ///< guarded
};

namespace {

/// Actions selected by the first number of the input.
constexpr float lose_context = 1000, no_memory = 1001, hang = 1002,
                take_a_second = 1003, keep_memory = 1004;

constexpr int gpus = 2;

/// Whether this process lost a GPU, by GPU index. A stage without a place uses
/// the first GPU.
std::atomic<bool> is_lost[gpus];

std::mutex mutex;
std::map<uintptr_t, uint64_t> pins;              ///< guarded; bytes by address
auto* const kept = new std::vector<std::string>; ///< guarded; never freed

int fail(millrace_error* failed, int kind, const char* why) {
  failed->kind = kind;
  std::snprintf(failed->text, sizeof failed->text, "%s", why);
  return 1;
}

int fail_for_good(int gpu, millrace_error* failed) {
  is_lost[gpu] = true;
  return fail(failed, millrace_gpu_is_lost,
              "running on the GPU: an illegal memory access (CUDA error 700)");
}

const char* describe() {
  return "a fake with two GPUs";
}

void enter_thread(int) {
}

int load(const millrace_layer* layers, uint64_t count, const uint32_t*,
         uint64_t, int, const millrace_place* place, millrace_stage** out,
         millrace_error* failed) {
  auto gpu = place != nullptr ? place->gpu : 0;
  if (is_lost[gpu])
    return fail_for_good(gpu, failed);
  *out = new millrace_stage;
  (*out)->gpu = gpu;
  (*out)->first_layer = layers[0].name;
  (*out)->has_arrived = place == nullptr;
  for (auto* x = layers; x != layers + count; ++x)
    for (uint64_t i = 0; i < x->parameter_count; ++i)
      (*out)->parameter_bytes += x->parameters[i].value.bytes;
  return 0;
}

void unload(millrace_stage* x) {
  delete x;
}

int depends_on_values(const millrace_stage*) {
  return 1;
}

/// Begins a pass as a real GPU does, and waits until the parameters have
/// arrived.
bool begin_pass(millrace_stage& x) {
  std::unique_lock guard{x.mutex};
  x.has_begun = true;
  x.changed.notify_all();
  guard.unlock();
  ::pthread_setname_np(::pthread_self(), "in a pass");
  for (volatile auto loops = x.first_layer == "begins_and_loops"; loops;)
    ;
  for (int i = 0; i < 16 && x.first_layer == "begins_and_eats"; ++i) {
    std::lock_guard kept_guard{mutex};
    kept->emplace_back(64 << 20, 'x');
  }
  guard.lock();
  x.changed.wait(guard, [&] { return x.has_arrived || x.is_given_up; });
  ::pthread_setname_np(::pthread_self(), "after a pass");
  return x.has_arrived;
}

int run(millrace_stage* stage, const millrace_tensor* inputs, uint32_t,
        millrace_room*, millrace_tensor* outputs, uint32_t,
        uint32_t* output_count, uint64_t*, millrace_error* failed) {
  if (!begin_pass(*stage))
    return fail(failed, millrace_failed, "nothing arrived");
  float first = 0;
  if (inputs[0].bytes >= sizeof first)
    std::memcpy(&first, inputs[0].data, sizeof first);
  if (is_lost[stage->gpu] || first == lose_context)
    return fail_for_good(stage->gpu, failed);
  if (first == no_memory)
    return fail(failed, millrace_no_memory, "CUDA out of memory");
  if (first == keep_memory) {
    std::lock_guard guard{mutex};
    kept->emplace_back(64 << 20, 'x');
  }
  auto steps = first == hang ? -1 : first == take_a_second ? 1000 : 0;
  for (auto left = steps; left != 0; --left) {
    timespec pause{0, 1'000'000}; // like a wait for a kernel
    ::nanosleep(&pause, nullptr);
    if (is_lost[stage->gpu])
      return fail_for_good(stage->gpu, failed);
  }
  outputs[0] = inputs[0];
  outputs[0].data = std::malloc(inputs[0].bytes);
  std::memcpy(const_cast<void*>(outputs[0].data), inputs[0].data,
              inputs[0].bytes);
  outputs[0].owner = const_cast<void*>(outputs[0].data);
  outputs[0].release = std::free;
  *output_count = 1;
  return 0;
}

int take_apart(const void*, uint64_t, int, const millrace_split*,
               const millrace_import_sink*, millrace_error* failed) {
  return fail(failed, millrace_failed, "it takes nothing apart");
}

int list(millrace_gpu* out, uint32_t capacity, uint32_t* count,
         millrace_error*) {
  *count = capacity < gpus ? capacity : gpus;
  for (uint32_t i = 0; i < *count; ++i) {
    out[i] = millrace_gpu{};
    std::snprintf(out[i].name, sizeof out[i].name, "fake");
    out[i].multiprocessors = 1;
    out[i].memory = out[i].free = uint64_t{1} << 30;
  }
  return 0;
}

int prepare(millrace_error*) {
  return 0;
}

int open(const millrace_place* place, millrace_error* failed) {
  if (place->by_mps != 0)
    return fail(failed, millrace_failed, "NVIDIA's MPS is none here");
  return place->gpu < gpus ? 0
                           : fail(failed, millrace_failed, "there is no such");
}

/// As in CUDA, memory can be page-locked once. It stays locked until unpin(),
/// even if other memory is mapped at the address.
int pin(void* begin, uint64_t bytes, millrace_error* failed) {
  auto first = reinterpret_cast<uintptr_t>(begin);
  std::lock_guard guard{mutex};
  for (auto& [at, size] : pins)
    if (first < at + size && at < first + bytes)
      return fail(failed, millrace_failed, "it is page-locked already");
  pins[first] = bytes;
  return 0;
}

void unpin(void* begin) {
  std::lock_guard guard{mutex};
  pins.erase(reinterpret_cast<uintptr_t>(begin));
}

int arrive(millrace_stage* x, const void* begin, uint64_t,
           millrace_error* failed) {
  if (is_lost[x->gpu])
    return fail_for_good(x->gpu, failed);
  std::unique_lock guard{x->mutex};
  auto comes_first = x->first_layer == "comes_first";
  if (comes_first || x->first_layer == "awaits_a_pass") {
    std::chrono::milliseconds most{comes_first ? 200 : 10'000};
    if (x->changed.wait_for(guard, most, [&] { return x->has_begun; })
        == comes_first)
      return fail(failed, millrace_failed,
                  comes_first ? "a pass has begun" : "no pass has begun");
  }
  x->has_arrived = begin == nullptr;
  x->changed.notify_all();
  return 0;
}

void give_up(millrace_stage* x) {
  std::lock_guard guard{x->mutex};
  x->is_given_up = true;
  x->changed.notify_all();
}

uint64_t memory(const millrace_stage* x) {
  return x->parameter_bytes;
}

int trace(void*, void (*)(void*, const millrace_kernel*),
          millrace_error* failed) {
  return fail(failed, millrace_failed, "it has no kernels");
}

constexpr millrace_gpu_calls gpu{list,   prepare, open,   pin,  unpin,
                                 arrive, give_up, memory, trace};

constexpr millrace_backend backend{
  MILLRACE_BACKEND_ABI, describe,   enter_thread, load, unload, run,
  depends_on_values,    take_apart, &gpu};

} // namespace

extern "C" const millrace_backend* millrace_backend_v1() {
  return &backend;
}
