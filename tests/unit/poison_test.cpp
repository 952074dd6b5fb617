// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/placement/quarantine.hpp"
#include "actors/router/poison_list.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P15: a model that fails is tried again after pauses that double up "
          "to 30 seconds") {
  quarantine x;
  auto when = at(0s);
  for (auto pause : {100ms, 1000ms, 2000ms, 4000ms, 8000ms, 16'000ms, 30'000ms,
                     30'000ms, 30'000ms}) {
    x.on_failure(when);
    CHECK(x.again() == when + pause);
    when = x.again() + 10ms;
  }
}

TEST_CASE("P15: three failures within a minute put a model in quarantine") {
  quarantine x;
  x.on_failure(at(0s));
  x.on_failure(at(40s));
  x.on_failure(at(70s));
  CHECK_FALSE(x.is_in_force());
  x.on_failure(at(90s));
  CHECK(x.is_in_force());
}

TEST_CASE(
  "P15: the time of failed load attempts does not count towards the minute") {
  quarantine x;
  auto when = at(0s);
  for (int i = 0; i < 3; ++i) {
    CHECK_FALSE(x.is_in_force());
    when += 61s; // each attempt takes a minute
    x.on_failure(when, 61s);
    when = x.again();
  }
  CHECK(x.is_in_force());
}

TEST_CASE("P15: failures within a pause count as one") {
  quarantine x;
  for (int i = 0; i < 8; ++i)
    x.on_failure(at(milliseconds{i}));
  CHECK_FALSE(x.is_in_force());
  CHECK(x.again() == at(100ms));
}

TEST_CASE("P15: a model without a failure for a minute leaves quarantine") {
  quarantine x;
  for (auto when : {0s, 1s, 3s})
    x.on_failure(at(when));
  CHECK(x.is_in_force());
  CHECK_FALSE(x.is_over(at(62s)));
  CHECK(x.is_over(at(64s)));
  x.on_failure(at(70s));
  CHECK(x.again() == at(70s) + 100ms);
  CHECK_FALSE(x.is_in_force());
}

TEST_CASE("P15: only inputs on the poison list are recognised") {
  poison_list x;
  tensor_list bad{floats({2, 4})}, twin{floats({2, 4})};
  auto good = bad;
  good[0].extents = {4, 2};
  CHECK_FALSE(x.contains(bad));
  CHECK(x.add(bad).size() == 64);
  CHECK(x.contains(twin));
  CHECK_FALSE(x.contains(good));
  CHECK_FALSE(x.contains({floats({2, 4}, 1)}));
  CHECK_FALSE(x.contains({floats({2, 4}), floats({2, 4})}));
  x.clear();
  CHECK_FALSE(x.contains(bad));
}

TEST_CASE("P15: inputs that differ only in the middle are distinct") {
  poison_list x;
  std::vector<float> numbers(1000);
  auto tensor_of = [&] {
    return tensor_list{*tensor::make(dtype::f32, {1000}, bytes_of(numbers))};
  };
  x.add(tensor_of());
  numbers[500] = 1;
  CHECK_FALSE(x.contains(tensor_of()));
}

TEST_CASE("P15: the poison list keeps the newest inputs") {
  poison_list x{3};
  for (int i = 0; i < 5; ++i)
    x.add({floats({4}, static_cast<float>(i))});
  CHECK_FALSE(x.contains({floats({4}, 1)}));
  CHECK(x.contains({floats({4}, 2)}));
  CHECK(x.contains({floats({4}, 4)}));
}
