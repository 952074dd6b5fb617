// SPDX-License-Identifier: Apache-2.0

/// \file
/// A backend with models that perform hostile actions in native code. The first
/// number of the input selects the action. It stands for a model that has
/// escaped its interpreter.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "models/backend/abi.h"
#include "tests/support/attempts.hpp"

struct millrace_stage {
  bool loops, crashes; ///< for any input
};

namespace {

/// Inputs from 1000 on are actions outside the list of attempts.
enum deed : int64_t {
  crash = 1000,
  leave = 1001,   ///< normal exit
  eat = 1002,     ///< 64 GiB of memory
  recurse = 1003, ///< until the stack ends
  crowd = 1004    ///< threads up to the limit
};

const char* describe() {
  return "hostile";
}

void enter_thread(int) {
}

/// The name of a layer selects the action during load or run.
int load(const millrace_layer* layers, uint64_t, const uint32_t*, uint64_t, int,
         const millrace_place*, millrace_stage** out, millrace_error*) {
  for (volatile bool loop = std::strcmp(layers[0].name, "loop") == 0; loop;)
    ;
  if (std::strcmp(layers[0].name, "crash") == 0)
    std::abort();
  *out = new millrace_stage{std::strcmp(layers[0].name, "loop later") == 0,
                            std::strcmp(layers[0].name, "crash later") == 0};
  return 0;
}

void unload(millrace_stage* x) {
  delete x;
}

int depends_on_values(const millrace_stage*) {
  return 1;
}

int64_t deeper(int64_t n) {
  volatile char room[4096] = {};
  room[n % 4096] = 1;
  return n == INT64_MAX ? 0 : deeper(n + 1) + room[0];
}

int64_t eat_memory() {
  constexpr size_t bytes = size_t{64} << 30;
  auto* p = static_cast<char*>(std::malloc(bytes));
  if (p == nullptr)
    return 12; // ENOMEM
  for (size_t i = 0; i < bytes; i += 4096)
    p[i] = 1;
  return 0;
}

int64_t start_threads() {
  pthread_attr_t small;
  ::pthread_attr_init(&small);
  ::pthread_attr_setstacksize(&small, 64 << 10);
  for (int i = 0; i < 2000; ++i) {
    pthread_t ignored;
    ::pthread_create(
      &ignored, &small, [](void*) -> void* { return ::sleep(3600), nullptr; },
      nullptr);
  }
  return 0;
}

int64_t perform(int64_t what) {
  auto all = millrace::test::attempts();
  if (what >= 0 && what < static_cast<int64_t>(all.size()))
    return all[static_cast<size_t>(what)].make();
  switch (what) {
  case crash:
    *static_cast<volatile int*>(nullptr) = 1;
    return 0;
  case leave:
    std::_Exit(0);
  case eat:
    return eat_memory();
  case crowd:
    return start_threads();
  case recurse:
    return deeper(0);
  default:
    return -1;
  }
}

/// Takes I64[n] with actions and returns I64[n] with their results.
int run(millrace_stage* stage, const millrace_tensor* inputs, uint32_t,
        millrace_room*, millrace_tensor* outputs, uint32_t,
        uint32_t* output_count, uint64_t*, millrace_error*) {
  for (volatile bool loop = stage->loops; loop;)
    ;
  if (stage->crashes)
    std::abort();
  auto n = inputs[0].bytes / sizeof(int64_t);
  auto* out = static_cast<int64_t*>(std::calloc(n, sizeof(int64_t)));
  auto* in = static_cast<const int64_t*>(inputs[0].data);
  for (uint64_t i = 0; i < n; ++i)
    out[i] = perform(in[i]);
  outputs[0] = inputs[0];
  outputs[0].data = out;
  outputs[0].owner = out;
  outputs[0].release = std::free;
  *output_count = 1;
  return 0;
}

/// The content of a file selects the action during its import.
int take_apart(const void* file, uint64_t bytes, int, const millrace_split*,
               const millrace_import_sink* sink, millrace_error* failed) {
  sink->layer(sink->self, "model", {}, {});
  std::string_view deed{static_cast<const char*>(file), bytes};
  for (volatile bool loop = deed == "loop"; loop;)
    ;
  if (deed == "crash")
    std::abort();
  if (deed == "attempts")
    for (auto& x : millrace::test::attempts())
      sink->input(sink->self, x.ordinary ? "ordinary" : "special",
                  std::to_string(x.make()).c_str());
  if (deed == "paint")
    sink->input(sink->self, "\x1b[31m", "Tensor");
  if (deed == "swell") {
    std::vector<char> code(size_t{1} << 30);
    sink->code(sink->self, code.data(), code.size());
  }
  std::snprintf(failed->text, sizeof failed->text, "\x1b[2J is hostile");
  return deed == "scold";
}

constexpr millrace_backend backend{
  MILLRACE_BACKEND_ABI, describe,   enter_thread, load, unload, run,
  depends_on_values,    take_apart, nullptr};

} // namespace

extern "C" const millrace_backend* millrace_backend_v1() {
  return &backend;
}
