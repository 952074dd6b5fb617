// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <optional>

#include <doctest/doctest.h>

#include "models/backend/backend.hpp"
#include "models/bundle_store.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/why.hpp"

/// \file
/// Shared parts of the tests on a real GPU.

namespace millrace::test {

inline std::shared_ptr<backend> runner() {
  auto x = torch_backend(code_trust::full);
  REQUIRE(x);
  return *x;
}

/// The first GPU; empty without a GPU.
inline std::optional<gpu_info> first_gpu() {
  auto* gpus = runner()->gpus();
  auto found = gpus != nullptr ? gpus->list() : std::vector<gpu_info>{};
  if (found && !found->empty())
    return found->front();
  std::puts("no GPU here"); // CTest marks the test as skipped by this text
  return std::nullopt;
}

inline std::shared_ptr<const bundle> open(const std::string& name) {
  auto x = bundle_store{TEST_BUNDLES}.open(name, "", verify::hashes);
  REQUIRE(x);
  return std::make_shared<const bundle>(std::move(*x));
}

/// Loads all or some layers of a model on the first GPU or on the CPU.
inline std::unique_ptr<loaded_stage> load(const std::string& name,
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

inline std::vector<float> run(loaded_stage& x, const tensor& input) {
  auto y = x.run({input});
  INFO(why(y));
  REQUIRE(y);
  return values_of((*y)[0]);
}

inline bool close(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](float x, float y) {
                      return std::abs(x - y) <= 1e-4f * (1 + std::abs(y));
                    });
}

inline tensor zeros(int64_t rows) {
  std::vector<float> values(static_cast<size_t>(4 * rows));
  return *tensor::make(dtype::f32, shape{rows, 4}, bytes_of(values));
}

inline uint64_t free_memory() {
  auto x = runner()->gpus()->list();
  REQUIRE(x);
  return x->front().free.value;
}

} // namespace millrace::test
