// SPDX-License-Identifier: Apache-2.0

/// \file
/// On a real GPU; where there is none each test says so and is skipped.
#include <doctest/doctest.h>

#include <cstdlib>
#include <future>
#include <thread>

#include "models/bundle_store.hpp"
#include "models/device/device.hpp"
#include "models/kernel_profile.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/confined_model.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<backend> runner() {
  auto x = torch_backend(code_trust::full);
  REQUIRE(x);
  return *x;
}

/// Nothing, where there is no GPU.
std::optional<gpu_info> first_gpu() {
  auto* gpus = runner()->gpus();
  auto found = gpus != nullptr ? gpus->list() : std::vector<gpu_info>{};
  if (found && !found->empty())
    return found->front();
  std::puts("no GPU here"); // which the test is known by as skipped
  return std::nullopt;
}

std::shared_ptr<const bundle> open(const std::string& name) {
  auto x = bundle_store{TEST_BUNDLES}.open(name, "", verify::hashes);
  REQUIRE(x);
  return std::make_shared<const bundle>(std::move(*x));
}

/// A model's layers, or some of them, on the first GPU or on the processors.
std::unique_ptr<loaded_stage> load(const std::string& name,
                                   const std::optional<gpu_place>& on,
                                   size_t first = 0, size_t last = 0) {
  auto content = open(name);
  auto stage = runner()->load(
    content, first, last == 0 ? content->info.layers.size() : last, on);
  INFO(why(stage));
  REQUIRE(stage);
  REQUIRE((*stage)->arrive());
  return std::move(*stage);
}

std::vector<float> run(loaded_stage& x, const tensor& input) {
  auto y = x.run({input});
  INFO(why(y));
  REQUIRE(y);
  return values_of((*y)[0]);
}

bool close(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) {
                      return std::abs(x - y) <= 1e-4f * (1 + std::abs(y));
                    });
}

tensor zeros(int64_t rows) {
  std::vector<float> values(static_cast<size_t>(4 * rows));
  return *tensor::make(dtype::f32, shape{rows, 4}, bytes_of(values));
}

uint64_t free_memory() {
  auto x = runner()->gpus()->list();
  REQUIRE(x);
  return x->front().free.value;
}

} // namespace

TEST_CASE("gpu: a model gives there what it gives on the processors") {
  if (!first_gpu())
    return;
  for (auto sharing : {gpu_sharing::time, gpu_sharing::streams})
    for (auto name : {"affine", "identity", "residual", "relay", "wide",
                      "ballast", "lookup"}) {
      CAPTURE(name);
      auto here = load(name, {});
      auto there = load(name, gpu_place{0, sharing});
      for (int64_t rows : {1, 3, 1, 64, 3}) {
        auto x =
          std::string{name} == "lookup" ? zeros(rows) : floats({rows, 4});
        CHECK(close(run(*there, x), run(*here, x)));
      }
    }
}

TEST_CASE("gpu: a model whose parameters stay on the host gives the same, and"
          " takes none of the GPU's memory for them") {
  if (!first_gpu())
    return;
  for (auto name : {"affine", "residual", "ballast", "tallying"}) {
    CAPTURE(name);
    auto here = load(name, gpu_place{});
    auto there = load(name, gpu_place{.parameters = gpu_parameters::host});
    CHECK(there->memory().value < 1 << 20);
    for (int i = 0; i < 6; ++i) { // the last ones are replayed
      auto x = floats({3, 4}, static_cast<float>(i));
      CHECK(close(run(*there, x), run(*here, x)));
    }
  }
}

TEST_CASE("gpu: a batch that is recorded and replayed has its own inputs") {
  if (!first_gpu())
    return;
  auto here = load("affine", {});
  auto there = load("affine", gpu_place{});
  for (int i = 0; i < 12; ++i) {
    auto x = floats({5, 4}, static_cast<float>(i));
    CHECK(close(run(*there, x), run(*here, x)));
  }
}

TEST_CASE("gpu: what a model writes to its parameters or keeps it has in its"
          " next run, recorded or not") {
  if (!first_gpu())
    return;
  for (auto name : {"tallying", "keeping"}) {
    auto here = load(name, {});
    auto there = load(name, gpu_place{});
    for (int i = 0; i < 8; ++i) {
      auto x = floats({2, 4}, static_cast<float>(i));
      if (std::string{name} == "keeping") {
        auto twice = values_of(x);
        for (auto& v : twice)
          v *= 2;
        CHECK(run(*there, x) == twice);
      } else if (i > 0) { // the processors' parameters cannot be written
        auto y = run(*there, x);
        CHECK(y[0] == values_of(x)[0] + static_cast<float>(i + 1));
      } else {
        run(*there, x);
      }
    }
  }
}

TEST_CASE("gpu: layers in two parts compute what the whole does") {
  if (!first_gpu())
    return;
  auto layers = open("residual")->info.layers.size();
  REQUIRE(layers > 2);
  auto whole = load("residual", {});
  auto x = floats({3, 4});
  auto a = load("residual", gpu_place{}, 0, 2);
  auto b = load("residual", gpu_place{}, 2, layers);
  auto between = a->run({x});
  REQUIRE(between);
  auto y = b->run(*between);
  REQUIRE(y);
  CHECK(close(values_of((*y)[0]), run(*whole, x)));
}

TEST_CASE("IF-31: batches with and without overlap, with and without a share,"
          " give the same") {
  if (!first_gpu())
    return;
  auto here = load("residual", {});
  auto x = floats({7, 4});
  auto expected = run(*here, x);
  for (auto streaming : {false, true})
    for (auto share : {0., 25.}) {
      auto there = load("residual", gpu_place{0, gpu_sharing::partitions, share,
                                              streaming, true});
      for (int i = 0; i < 6; ++i)
        CHECK(close(run(*there, x), expected));
    }
}

TEST_CASE("IF-32: batches of several threads at a time each get their own"
          " results") {
  if (!first_gpu())
    return;
  for (auto sharing : {gpu_sharing::time, gpu_sharing::streams})
    for (auto streaming : {false, true}) {
      auto there = load("affine", gpu_place{0, sharing, 0, streaming, true});
      auto here = load("affine", {});
      std::vector<tensor> inputs;
      std::vector<std::vector<float>> expected;
      for (int i = 0; i < 4; ++i) {
        inputs.push_back(floats({2000, 4}, static_cast<float>(i)));
        expected.push_back(run(*here, inputs.back()));
      }
      std::atomic<int> wrong{0};
      {
        std::vector<std::jthread> threads;
        for (size_t i = 0; i < 4; ++i)
          threads.emplace_back([&, i] {
            for (int k = 0; k < 200; ++k) {
              auto y = there->run({inputs[i]});
              if (!y || !close(values_of((*y)[0]), expected[i]))
                ++wrong;
            }
          });
      }
      CHECK(wrong == 0);
    }
}

TEST_CASE("IF-28: batches of sizes seen before take no memory of the GPU") {
  if (!first_gpu())
    return;
  auto there = load("wide", gpu_place{});
  auto all = [&] {
    for (int64_t rows : {1, 4, 16, 2, 8})
      for (int i = 0; i < 6; ++i)
        run(*there, floats({rows, 4}));
  };
  all();
  auto before = free_memory();
  for (int i = 0; i < 10; ++i)
    all();
  CHECK(free_memory() == before);
}

TEST_CASE("gpu: a batch for which there is no memory is refused, and the next"
          " one is run") {
  auto gpu = first_gpu();
  if (!gpu)
    return;
  auto there = load("wide", gpu_place{});
  run(*there, floats({1, 4}));
  // It gives 20,000 numbers for each it takes.
  auto rows = static_cast<int64_t>(gpu->memory.value / (20'000 * 4 * 4) + 1000);
  auto y = there->run({floats({rows, 4})});
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::overloaded);
  INFO(y.failure().text);
  CHECK(y.failure().text.find("out of memory") != std::string::npos);
  CHECK(run(*there, floats({1, 4})).size() == 80'000);
}

TEST_CASE("gpu: a model that fails says why and lives on") {
  if (!first_gpu())
    return;
  auto there = load("picky", gpu_place{});
  auto y = there->run({floats({1, 4}, 1000)});
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::internal);
  CHECK(y.failure().text.find("a number above 100") != std::string::npos);
  CHECK(there->run({floats({1, 4})}));
}

TEST_CASE("gpu: what was unloaded gives all its memory back") {
  if (!first_gpu())
    return;
  auto cycle = [] {
    auto there = load("ballast", gpu_place{});
    run(*there, floats({64, 4}));
    CHECK(there->memory().value >= 32 << 20);
  };
  cycle(); // what the first one opens stays
  auto before = free_memory();
  for (int i = 0; i < 20; ++i)
    cycle();
  CHECK(free_memory() == before);
}

TEST_CASE("gpu: weights are copied in whatever parts they come, and once") {
  if (!first_gpu())
    return;
  auto content = open("ballast");
  REQUIRE(content->weights_file);
  auto all = content->weights_file->content().view();
  auto x = floats({3, 4});
  auto here = load("ballast", {});
  auto there = runner()->load(content, 0, 1, gpu_place{});
  REQUIRE(there);
  constexpr size_t part = 5'000'000; // of 32 MiB
  for (size_t i : {3, 0, 5, 3, 6})
    REQUIRE((*there)->arrive(
      all.subspan(i * part, std::min(part, all.size() - i * part))));
  REQUIRE((*there)->arrive(all.subspan(0, 0)));
  REQUIRE((*there)->arrive());
  CHECK(close(run(**there, x), run(*here, x)));
}

TEST_CASE("gpu: memory that a run takes is metered") {
  if (!first_gpu())
    return;
  auto there = load("wide", gpu_place{});
  uint64_t peak = 0;
  REQUIRE(there->run({floats({5, 4})}, {}, &peak));
  CHECK(peak >= 5 * 4 * 20'000 * 4);
}

TEST_CASE("gpu: a GPU that is not there is named, with how many there are") {
  if (!first_gpu())
    return;
  auto x = runner()->load(open("affine"), 0, 1, gpu_place{60});
  REQUIRE_FALSE(x);
  CHECK(x.failure().text.find("there is no GPU 60; there are")
        != std::string::npos);
}

TEST_CASE("IF-48: kernels of a batch are traced, with what they need") {
  auto gpu = first_gpu();
  if (!gpu)
    return;
  auto there =
    load("residual", gpu_place{0, gpu_sharing::time, 0, true, false});
  run(*there, floats({64, 4}));
  auto* gpus = runner()->gpus();
  REQUIRE(gpus->begin_trace());
  run(*there, floats({64, 4}));
  auto kernels = gpus->end_trace();
  REQUIRE(kernels);
  CHECK(kernels->size() >= 6);
  for (auto& k : *kernels) {
    CHECK(k.end > k.start);
    CHECK(k.resident > 0);
    CHECK(sm_utilisation(k, *gpu) > 0);
  }
}

TEST_CASE("gpu, confined: a process with a GPU computes what a thread does") {
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

TEST_CASE("gpu, confined: what ends all use of the GPU ends that process only,"
          " and says why") {
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
  CHECK(why.find("can use its GPU no more") != std::string::npos);
  CHECK(run(*beside, floats({1, 4})).size() == 2);
  confined_model next{"lookup", gpu_place{}};
  next.ready();
  CHECK(next.run(zeros(1)));
}

TEST_CASE("P24, gpu: models share a process, each on its part of the GPU, and"
          " lose it together") {
  if (!first_gpu())
    return;
  for (auto sharing : {gpu_sharing::streams, gpu_sharing::partitions}) {
    auto share = sharing == gpu_sharing::partitions ? 50. : 0.;
    gpu_place place{0, sharing, share};
    auto ground = std::make_shared<process_ground>(true, true);
    auto make = [&](const std::string& name) {
      return confined_model{ground, verified(name), 2, 60s, false, place};
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
      CHECK(x->loss().code == ec::cancelled); // for nobody knows
    auto next = make("affine");
    next.ready();
    CHECK(next.run(floats({1, 4})));
  }
}

TEST_CASE("P24, gpu: what leaves a process that others share gives its memory"
          " back") {
  if (!first_gpu())
    return;
  auto ground = std::make_shared<process_ground>(true, true);
  gpu_place place{0, gpu_sharing::streams};
  auto make = [&](const std::string& name) {
    return std::make_unique<confined_model>(ground, verified(name), 2, 60s,
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

/// Loses this process's GPU: to be run alone, as CTest and tools/gpu-check do.
TEST_CASE(
  "P24, gpu alone: a GPU that is lost in threads is said to be of no more"
  " use") {
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

TEST_CASE("IF-33: a process with a share has so many multiprocessors, and one"
          " without has all") {
  auto gpu = first_gpu();
  if (!gpu)
    return;
  auto* mps = std::getenv("MILLRACE_TEST_MPS");
  if (mps == nullptr) {
    std::puts("no GPU here that MPS runs for");
    return;
  }
  ::setenv("CUDA_MPS_PIPE_DIRECTORY", mps,
           1); // which this process did not have
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
