// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/device/batch_run.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A stage that doubles its inputs and runs out of memory above `most_rows`.
class doubling_stage : public loaded_stage {
public:
  explicit doubling_stage(int64_t most_rows) : most_rows_(most_rows) {}

  result<tensor_list> run(const tensor_list& inputs, const run_limits&,
                          uint64_t*, output_room*) override {
    ++passes;
    if (inputs[0].extents[0] > most_rows_)
      return error{ec::overloaded, "CUDA out of memory"};
    auto xs = values_of(inputs[0]);
    for (auto& x : xs)
      x *= 2;
    return tensor_list{
      *tensor::make(dtype::f32, inputs[0].extents, bytes_of(xs))};
  }
  bool depends_on_values() const override { return false; }

  int passes = 0;

private:
  int64_t most_rows_;
};

/// A batch of requests of one row each, with distinct values.
execution batch_of(size_t requests) {
  execution out;
  for (size_t i = 0; i < requests; ++i)
    out.items.push_back({floats({1, 4}, static_cast<float>(10 * i))});
  return out;
}

struct environment {
  explicit environment(int64_t most_rows) : stage(most_rows) {}

  result<std::vector<tensor_list>> run(const execution& x) {
    uint64_t peak = 0;
    return run_requests({stage, make_bundle("m")->info.signature, pace, fits},
                        x, peak);
  }

  doubling_stage stage;
  run_pace pace;
  fitting_batch fits;
};

} // namespace

TEST_CASE("P24: a batch that exceeds memory is run in pieces and each request "
          "gets its own result") {
  environment on{3};
  auto x = batch_of(8);
  for (int i = 0; i < 2; ++i) {
    auto y = on.run(x);
    REQUIRE(y);
    REQUIRE(y->size() == 8);
    for (size_t k = 0; k < 8; ++k) {
      auto twice = values_of(x.items[k][0]);
      for (auto& v : twice)
        v *= 2;
      CHECK(values_of((*y)[k][0]) == twice);
    }
  }
  // The first run tries 8, 4, then four times 2. The second run begins with 2.
  CHECK(on.stage.passes == 1 + 1 + 4 + 4);
}

TEST_CASE("P24: a single request that exceeds memory fails with its batch") {
  environment on{0};
  auto y = on.run(batch_of(2));
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::overloaded);
  CHECK(on.stage.passes == 2); // the whole batch, then its first request
}

TEST_CASE("batch run: a batch that fits into memory is run in one pass") {
  environment on{8};
  CHECK(on.run(batch_of(8)));
  CHECK(on.stage.passes == 1);
}

TEST_CASE("fitting batch: a larger batch is tried again one minute after "
          "memory ran out") {
  fitting_batch x;
  timestamp now{1h};
  CHECK(x.allows(1'000'000, now));
  x.exceeded_by(1000, now);
  CHECK(x.allows(500, now));
  CHECK_FALSE(x.allows(501, now));
  CHECK_FALSE(x.allows(501, now + 59s));
  CHECK(x.allows(501, now + 1min));
}
