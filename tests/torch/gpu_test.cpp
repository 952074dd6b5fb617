// SPDX-License-Identifier: Apache-2.0

/// \file
/// Tests on a real GPU. Without a GPU each test prints a message and is
/// skipped.
#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "models/gpu/kernel_profile.hpp"
#include "tests/support/on_gpu.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

TEST_CASE("gpu: a model computes the same on a GPU as on the processors") {
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

TEST_CASE("gpu: a model with its parameters on the host computes the same and "
          "takes no GPU memory for them") {
  if (!first_gpu())
    return;
  for (auto name : {"affine", "residual", "ballast", "tallying"}) {
    CAPTURE(name);
    auto here = load(name, gpu_place{});
    auto there = load(name, gpu_place{.parameters = gpu_parameters::host});
    CHECK(there->memory().value < 1 << 20);
    for (int i = 0; i < 6; ++i) { // the last runs are replayed
      auto x = floats({3, 4}, static_cast<float>(i));
      CHECK(close(run(*there, x), run(*here, x)));
    }
  }
}

TEST_CASE("gpu: in a pass that begins before the parameters arrived each layer "
          "waits for its own") {
  if (!first_gpu())
    return;
  auto content = open("residual");
  auto layers = content->info.layers.size();
  auto here = load("residual", {});
  auto x = floats({3, 4});
  for (auto parameters : {gpu_parameters::device, gpu_parameters::host}) {
    auto there =
      runner()->load(content, 0, layers, gpu_place{.parameters = parameters});
    REQUIRE(there);
    auto pass = std::async(std::launch::async, [&] { return run(**there, x); });
    CHECK(pass.wait_for(50ms) == std::future_status::timeout);
    for (size_t i = layers; i > 0; --i) // the last layers first
      for (auto& w : weights_of(*content, i - 1, i))
        REQUIRE((*there)->arrive(w.value.data.view()));
    CHECK(close(pass.get(), run(*here, x)));
  }
}

TEST_CASE("gpu: a pass fails if its parameters will not arrive") {
  if (!first_gpu())
    return;
  auto content = open("residual");
  auto there =
    runner()->load(content, 0, content->info.layers.size(), gpu_place{});
  REQUIRE(there);
  auto pass = std::async(std::launch::async, [&] {
    return (*there)->run({floats({3, 4})});
  });
  (*there)->give_up_parameters();
  auto outcome = pass.get();
  REQUIRE_FALSE(outcome);
  CHECK(outcome.failure().text.find("have arrived") != std::string::npos);
  REQUIRE((*there)->arrive()); // parameters that still arrive are used
  CHECK((*there)->run({floats({3, 4})}));
}

TEST_CASE("gpu: a recorded and replayed batch has its own inputs") {
  if (!first_gpu())
    return;
  auto here = load("affine", {});
  auto there = load("affine", gpu_place{});
  for (int i = 0; i < 12; ++i) {
    auto x = floats({5, 4}, static_cast<float>(i));
    CHECK(close(run(*there, x), run(*here, x)));
  }
}

TEST_CASE("gpu: a model finds its changed parameters and state in its next run "
          "whether recorded or not") {
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
      } else if (i > 0) { // parameters on the processors are read-only
        auto y = run(*there, x);
        CHECK(y[0] == values_of(x)[0] + static_cast<float>(i + 1));
      } else {
        run(*there, x);
      }
    }
  }
}

TEST_CASE("gpu: layers in two parts compute the same as the whole") {
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

TEST_CASE("IF-31: batches with and without overlap and with and without a "
          "share compute the same") {
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

TEST_CASE(
  "IF-32: concurrent batches of several threads get their own results") {
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

TEST_CASE("IF-28: batches of known sizes take no further GPU memory") {
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

TEST_CASE(
  "gpu: a batch that exceeds GPU memory is refused and the next one is run") {
  auto gpu = first_gpu();
  if (!gpu)
    return;
  auto there = load("wide", gpu_place{});
  run(*there, floats({1, 4}));
  // The model returns 20,000 numbers for each input number.
  auto rows = static_cast<int64_t>(gpu->memory.value / (20'000 * 4 * 4) + 1000);
  auto y = there->run({floats({rows, 4})});
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::overloaded);
  INFO(y.failure().text);
  CHECK(y.failure().text.find("out of memory") != std::string::npos);
  CHECK(run(*there, floats({1, 4})).size() == 80'000);
}

TEST_CASE("gpu: a model that raises an error reports it and stays loaded") {
  if (!first_gpu())
    return;
  auto there = load("picky", gpu_place{});
  auto y = there->run({floats({1, 4}, 1000)});
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::internal);
  CHECK(y.failure().text.find("a number above 100") != std::string::npos);
  CHECK(there->run({floats({1, 4})}));
}

TEST_CASE("gpu: an unloaded model frees all its memory") {
  if (!first_gpu())
    return;
  auto cycle = [] {
    auto there = load("ballast", gpu_place{});
    run(*there, floats({64, 4}));
    CHECK(there->memory().value >= 32 << 20);
  };
  cycle(); // the first cycle allocates lasting resources
  auto before = free_memory();
  for (int i = 0; i < 20; ++i)
    cycle();
  CHECK(free_memory() == before);
}

TEST_CASE("gpu: the reported memory of a model in a shared process is that of "
          "its own passes") {
  if (!first_gpu())
    return;
  for (auto sharing : {gpu_sharing::streams, gpu_sharing::partitions}) {
    gpu_place place{0, sharing, sharing == gpu_sharing::partitions ? 25. : 0.};
    auto small = load("affine", place);
    auto large = load("wide", place); // 80,000 numbers a row
    run(*small, floats({100, 4}));
    auto before = small->memory().value;
    run(*large, floats({100, 4}));
    CHECK(large->memory().value >= 100 * 80'000 * 4);
    CHECK(small->memory().value == before);
    CHECK(before < 100 * 80'000 * 4);
  }
}

TEST_CASE("gpu: weights that arrive in any order are copied once") {
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

TEST_CASE("gpu: the memory of a run is metered") {
  if (!first_gpu())
    return;
  auto there = load("wide", gpu_place{});
  uint64_t peak = 0;
  REQUIRE(there->run({floats({5, 4})}, {}, &peak));
  CHECK(peak >= 5 * 4 * 20'000 * 4);
}

TEST_CASE("gpu: an unknown GPU is refused by number with the count of GPUs") {
  if (!first_gpu())
    return;
  auto x = runner()->load(open("affine"), 0, 1, gpu_place{60});
  REQUIRE_FALSE(x);
  CHECK(x.failure().text.find("there is no GPU 60; there are")
        != std::string::npos);
}

TEST_CASE("IF-48: kernels of a batch are traced with their resources") {
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
