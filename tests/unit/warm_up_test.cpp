// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/backend/warm_up.hpp"
#include "models/crossing.hpp"
#include "models/device/run_pace.hpp"
#include "models/device/short_runs.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("run_pace: the expected time of a batch grows with its size") {
  run_pace x;
  CHECK(x.expected(100) == 0ns);
  x.learn(30ms, 10);
  x.learn(9s, 0);
  CHECK(x.expected(10) == 30ms);
  CHECK(x.expected(640) == 64 * 30ms);
  CHECK(x.expected(SIZE_MAX) == 240h);
}

TEST_CASE("run_pace: one long run raises the expected time only for a while") {
  run_pace x;
  x.learn(8s, 10);
  x.learn(10ms, 10);
  CHECK(x.expected(10) == 7s);
  for (int i = 0; i < 100; ++i)
    x.learn(10ms, 10);
  CHECK(x.expected(10) == 10ms);
}

TEST_CASE(
  "short runs: inputs no larger than short ones are expected to be short") {
  short_runs x{100us};
  CHECK_FALSE(x.expected(10)); // no run was measured
  x.learn(40us, 10);
  CHECK(x.expected(10));
  CHECK_FALSE(x.expected(11));
  x.learn(500us, 1000); // not evidence about smaller inputs
  CHECK(x.expected(10));
  x.learn(50us, 20);
  CHECK(x.expected(20));
}

TEST_CASE(
  "short runs: one long run is ignored and three mark the model as slow") {
  short_runs x{100us};
  x.learn(40us, 10);
  x.learn(5000us, 10);
  x.learn(5000us, 10);
  CHECK(x.expected(10));
  x.learn(5000us, 10);
  CHECK_FALSE(x.expected(10));
  x.learn(60us, 10); // later, on a lane
  CHECK(x.expected(10));
}

namespace {

/// A stage that takes a fixed time per row on its own clock, and records the
/// rows of each pass.
class slow_stage : public loaded_stage {
public:
  explicit slow_stage(nanoseconds row) : row_(row) {}

  result<tensor_list> run(const tensor_list& inputs, const run_limits&,
                          uint64_t*, output_room*) override {
    rows.push_back(inputs.at(0).extents[0]);
    now += rows.back() * row_;
    return tensor_list{};
  }

  bool depends_on_values() const override { return false; }

  std::vector<int64_t> rows;
  timestamp now{};

private:
  nanoseconds row_;
};

/// The rows of each pass of a warm-up, for the first of `layers` layers.
std::vector<int64_t> rows_of_warm_up(nanoseconds row, size_t batch,
                                     nanoseconds short_pass = 0ns,
                                     size_t layers = 1) {
  slow_stage x{row};
  auto info = make_bundle("m")->info;
  info.layers.resize(layers, info.layers.front());
  REQUIRE(
    warm_up(x, info, {0, 1, batch, short_pass, [&] { return x.now; }, {}}));
  return x.rows;
}

/// The rows of each pass, if another task needs the thread after `passes`
/// passes.
std::vector<int64_t> rows_until_wanted(size_t passes) {
  slow_stage x{10us};
  warm_up_options how{0, 1, 64, 0ns, [&] { return x.now; }};
  how.is_over = [&] { return x.rows.size() >= passes; };
  REQUIRE(warm_up(x, make_bundle("m")->info, how));
  return x.rows;
}

} // namespace

TEST_CASE(
  "warm-up: it runs a full batch or as many rows as fit its time limit") {
  CHECK(rows_of_warm_up(10us, 64) == std::vector<int64_t>{1, 1, 64, 64});
  CHECK(rows_of_warm_up(20ms, 64) == std::vector<int64_t>{1, 1, 10, 10});
  CHECK(rows_of_warm_up(150ms, 64) == std::vector<int64_t>{1, 1});
  CHECK(rows_of_warm_up(210ms, 64) == std::vector<int64_t>{1});
}

TEST_CASE("warm-up: the time limit of a part is its share of the model") {
  CHECK(rows_of_warm_up(20ms, 64, 0ns, 2) == std::vector<int64_t>{1, 1, 5, 5});
  CHECK(rows_of_warm_up(20ms, 64, 0ns, 20) == std::vector<int64_t>{1});
}

TEST_CASE("warm-up: it can be stopped between passes after the first one") {
  CHECK(rows_until_wanted(0) == std::vector<int64_t>{1});
  CHECK(rows_until_wanted(1) == std::vector<int64_t>{1});
  CHECK(rows_until_wanted(2) == std::vector<int64_t>{1, 1});
  CHECK(rows_until_wanted(3) == std::vector<int64_t>{1, 1, 64});
}

TEST_CASE("warm-up: short passes are repeated") {
  CHECK(rows_of_warm_up(10us, 1, 20us) == std::vector<int64_t>(8, 1));
}

TEST_CASE(
  "warm-up: a first stage gets the manifest's row and other stages get zeros") {
  auto info = make_bundle("m")->info;
  auto row = floats({1, 4}, 5);
  auto text = write_warm_up_row(info.signature, {row});
  REQUIRE(text);
  info.warm_up = *text;
  auto read = parse_manifest(print_manifest(info), "model.yaml");
  REQUIRE(read);
  auto inputs = warm_up_inputs(*read, 0, 3);
  REQUIRE(inputs);
  CHECK(inputs->front().extents == shape{3, 4});
  CHECK(values_of(inputs->front())
        == std::vector<float>{5, 6, 7, 8, 5, 6, 7, 8, 5, 6, 7, 8});
  for (std::string damaged : {"", "not base64!", "AAAA"}) {
    info.warm_up = damaged;
    inputs = warm_up_inputs(info, 0, 1);
    REQUIRE(inputs);
    CHECK(values_of(inputs->front()) == std::vector<float>(4, 0));
  }
  CHECK(write_warm_up_row(info.signature, {floats({1, 5000})}).failure().code
        == ec::too_large);
}
