// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/backend/backend.hpp"
#include "models/bundle_store.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A model of the tests in this process, with room for its outputs.
class roomy_stage {
public:
  explicit roomy_stage(const std::string& name, size_t bytes = 1 << 20)
    : room_(byte_buffer{bytes}.freeze()) {
    auto content = bundle_store{TEST_BUNDLES}.open(name, "", verify::sizes);
    REQUIRE(content);
    auto runner = torch_backend(code_trust::full);
    REQUIRE(runner);
    auto layers = content->info.layers.size();
    auto stage = (*runner)->load(
      std::make_shared<const bundle>(std::move(*content)), 0, layers);
    REQUIRE(stage);
    stage_ = std::move(*stage);
  }

  /// Runs `rows` rows and checks that they are doubled. Returns whether the
  /// output is in the room.
  bool doubles_inside(int64_t rows) {
    used = {room_};
    auto x = floats({rows, 4}, static_cast<float>(rows));
    auto y = stage_->run({x}, {}, nullptr, &used);
    REQUIRE(y);
    auto in = values_of(x), out = values_of((*y)[0]);
    REQUIRE(in.size() == out.size());
    CHECK(std::equal(in.begin(), in.end(), out.begin(),
                     [](float a, float b) { return 2 * a == b; }));
    auto* at = (*y)[0].data.data();
    auto inside = at >= room_.data() && at < room_.data() + room_.size();
    CHECK(inside == (used.used != 0));
    return inside;
  }

  output_room used;

private:
  shared_bytes room_;
  std::unique_ptr<loaded_stage> stage_;
};

} // namespace

TEST_CASE("output_room: a pass writes its outputs to the room once their sizes "
          "are known") {
  roomy_stage x{"picky"};
  CHECK_FALSE(x.doubles_inside(10));
  for (int i = 0; i < 3; ++i)
    CHECK(x.doubles_inside(10));
  CHECK(x.used.used == 192); // 160 rounded up to the next offset
  CHECK_FALSE(x.doubles_inside(11));
  CHECK(x.doubles_inside(10));
  CHECK(x.doubles_inside(11));
  CHECK_FALSE(x.used.kept);
}

TEST_CASE("output_room: an output without room is allocated elsewhere") {
  roomy_stage x{"picky", 160};
  for (int i = 0; i < 3; ++i)
    CHECK_FALSE(x.doubles_inside(10)); // these would take 192
  CHECK_FALSE(x.doubles_inside(8));
  CHECK(x.doubles_inside(8)); // these take 128
}

TEST_CASE("output_room: a model that keeps an output is reported once") {
  roomy_stage x{"keeping"};
  CHECK_FALSE(x.doubles_inside(10));
  CHECK_FALSE(x.used.kept);
  CHECK(x.doubles_inside(10));
  CHECK(x.used.kept);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(x.doubles_inside(10));
    CHECK_FALSE(x.used.kept);
  }
}
