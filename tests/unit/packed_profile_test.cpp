// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "models/packed_profile.hpp"

using namespace millrace;

namespace {

profile two_devices() {
  return {"m",
          {{"cpu", 1, {{"layer", 0}}, {{"execute_seconds", 0.5}}},
           {"cpu", 2, {{"layer", 0}}, {{"execute_seconds", 0.75}}},
           {"v100", 1, {}, {{"load_seconds", 3}, {"memory_bytes", 1e9}}}},
          "of these layers",
          {{"cpu", "w1/cpu0"}, {"v100", "imported"}}};
}

std::string refusal(const packed_profile& x) {
  auto out = unpack(x);
  return out ? "" : out.failure().text;
}

} // namespace

TEST_CASE("packed_profile: a packed profile is unpacked as the same and has "
          "each name once") {
  auto x = pack(two_devices());
  CHECK(x.names.size() == 6);
  auto back = unpack(x);
  REQUIRE(back);
  CHECK(print_profiles({*back}) == print_profiles({two_devices()}));
}

TEST_CASE("P11: an invalid packed profile is refused") {
  auto x = pack(two_devices());
  for (size_t i = 0; i < x.numbers.size(); ++i) {
    auto shorter = x;
    shorter.numbers.resize(i);
    if (i == 0)
      CHECK(refusal(shorter).find("has 0 points") != std::string::npos);
    else if (i % 8 != 0) // this profile has one point less
      CHECK(refusal(shorter).find("is no profile from") != std::string::npos);
  }
  for (auto wrong : {-1.0, 0.5, 6.0, 1e300, std::nan(""), HUGE_VAL})
    for (size_t place : {0, 2, 3}) { // a name's index, a count
      auto y = x;
      y.numbers[place] = wrong;
      CHECK(refusal(y) != "");
    }
  x.names[0] = std::string(101, 'x');
  CHECK(refusal(x)
        == "the profile of 'm' has a name of 101 bytes, expected at most 100");
  packed_profile many{"m", {}, {}, {"cpu"}, {}};
  for (size_t i = 0; i < 16'385; ++i)
    many.numbers.insert(many.numbers.end(), {0, 1, 0, 0});
  CHECK(refusal(many)
        == "the profile of 'm' has 65540 numbers in all, expected at most"
           " 65536");
}
