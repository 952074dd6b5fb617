// SPDX-License-Identifier: Apache-2.0

/// \file
/// Processes and threads that use a real GPU and lose it.
#include <doctest/doctest.h>

#include <cstdlib>
#include <future>

#include "models/device/device.hpp"
#include "tests/support/confined_model.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/on_gpu.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// 1203 stands for 12.3.
constexpr int cuda_toolkit = CUDA_TOOLKIT;

} // namespace

TEST_CASE("gpu, confined: a process with a GPU computes the same as a thread") {
  if (!first_gpu())
    return;
  confined_model model{"affine", gpu_place{}};
  model.ready();
  auto here = load("affine", {});
  for (int64_t rows : {1, 3, 5000, 3, 3, 3, 3, 3}) {
    auto x = floats({rows, 4});
    auto y = model.run(x);
    INFO(why(y));
    REQUIRE(y);
    CHECK(close(values_of((*y)[0]), run(*here, x)));
  }
}

TEST_CASE("gpu, confined: an error that ends all use of the GPU ends only its "
          "process and gives the reason") {
  if (!first_gpu())
    return;
  auto beside = load("affine", gpu_place{});
  confined_model model{"lookup", gpu_place{}};
  model.ready();
  REQUIRE(model.run(zeros(1)));
  auto y = model.run(floats({1, 4}, 1000));
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::poison);
  auto why = model.lost();
  INFO(why);
  CHECK(why.find("can no longer use its GPU") != std::string::npos);
  CHECK(run(*beside, floats({1, 4})).size() == 2);
  confined_model next{"lookup", gpu_place{}};
  next.ready();
  CHECK(next.run(zeros(1)));
}

TEST_CASE("P24, gpu: models share a process with separate parts of the GPU and "
          "lose it together") {
  if (!first_gpu())
    return;
  for (auto sharing : {gpu_sharing::streams, gpu_sharing::partitions}) {
    auto share = sharing == gpu_sharing::partitions ? 50. : 0.;
    gpu_place place{0, sharing, share};
    auto environment = std::make_shared<process_environment>(true, true);
    auto make = [&](const std::string& name) {
      return confined_model{environment, verified(name), 2, 60s, false, place};
    };
    auto idle = make("affine");
    auto culprit = make("lookup");
    idle.ready();
    culprit.ready();
    CHECK(grandchildren_of(::getpid()).size() == 1);
    auto here = load("affine", {});
    for (int64_t rows : {1, 64, 1, 1, 1, 1}) {
      auto x = floats({rows, 4});
      auto y = idle.run(x);
      INFO(why(y));
      REQUIRE(y);
      CHECK(close(values_of((*y)[0]), run(*here, x)));
    }
    REQUIRE(culprit.run(zeros(1)));
    auto y = culprit.run(floats({1, 4}, 1000));
    REQUIRE_FALSE(y);
    CHECK(y.failure().code == ec::poison);
    for (auto* x : {&culprit, &idle})
      CHECK(x->loss().code == ec::cancelled); // because the culprit is unknown
    auto next = make("affine");
    next.ready();
    CHECK(next.run(floats({1, 4})));
  }
}

TEST_CASE("P24, gpu: a model that leaves a shared process frees its memory") {
  if (!first_gpu())
    return;
  auto environment = std::make_shared<process_environment>(true, true);
  gpu_place place{0, gpu_sharing::streams};
  auto make = [&](const std::string& name) {
    return std::make_unique<confined_model>(environment, verified(name), 2, 60s,
                                            false, place);
  };
  auto stays = make("affine");
  stays->ready();
  REQUIRE(stays->run(floats({1, 4})));
  auto cycle = [&] {
    auto goes = make("ballast");
    goes->ready();
    auto y = goes->run(floats({64, 4}));
    INFO(why(y));
    REQUIRE(y);
  };
  cycle();
  auto before = free_memory();
  for (int i = 0; i < 5; ++i)
    cycle();
  CHECK(eventually([&] { return free_memory() >= before; }, 5s));
}

/// Loses the GPU of this process, so CTest and tools/gpu-check run this test
/// alone.
TEST_CASE(
  "P24, gpu alone: a GPU that is lost in threads is reported unusable") {
  if (!first_gpu())
    return;
  struct : device_listener {
    void on_loaded(instance_id, result<load_report> x) override {
      loaded.set_value(static_cast<bool>(x));
    }
    void on_lost(instance_id, error) override {}
    void on_executed(execution_report x) override {
      executed.set_value(x.outputs ? ec::ok : x.outputs.failure().code);
    }
    void on_usable(result<void> x) override {
      usable.set_value(static_cast<bool>(x));
    }
    std::promise<bool> loaded, usable;
    std::promise<ec> executed;
  } heard;
  backend_settings settings;
  settings.isolation = isolation_mode::thread;
  settings.gpu = gpu_place{};
  auto gpu = make_backend_device({"gpu0", "cuda", 2, {}}, settings, heard);
  REQUIRE(gpu);
  load_request what;
  what.instance = 1;
  what.content = open("lookup");
  what.last_layer = 1;
  (*gpu)->load(std::move(what), steady_now());
  REQUIRE(heard.loaded.get_future().get());
  execution x;
  x.instance = 1;
  x.items = {{floats({1, 4}, 1000)}};
  (*gpu)->execute(std::move(x), steady_now());
  CHECK(heard.executed.get_future().get() == ec::poison);
  CHECK_FALSE(heard.usable.get_future().get());
}

TEST_CASE("IF-33: processes under MPS compute the same with and without a "
          "share and report a missing MPS") {
  auto gpu = first_gpu();
  if (!gpu)
    return;
  auto* mps = std::getenv("MILLRACE_TEST_MPS");
  if (mps == nullptr) {
    ::setenv("CUDA_MPS_PIPE_DIRECTORY", "/nowhere", 1);
    confined_model without{"affine", gpu_place{.sharing = gpu_sharing::mps}};
    auto outcome = without.loaded();
    ::unsetenv("CUDA_MPS_PIPE_DIRECTORY");
    INFO(why(outcome));
    auto can_say = cuda_toolkit >= 1203; // older toolkits run without MPS
    CHECK((why(outcome).find("MPS does not serve") != std::string::npos)
          == can_say);
    std::puts("no GPU here that MPS runs for");
    return;
  }
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", mps,
           1); // not set in this process
  auto here = load("affine", {});
  auto x = floats({64, 4});
  for (auto share : {0., 25.}) {
    confined_model model{"affine",
                         gpu_place{0, gpu_sharing::mps, share, true, true}};
    model.ready();
    auto y = model.run(x);
    REQUIRE(y);
    CHECK(close(values_of((*y)[0]), run(*here, x)));
  }
}
