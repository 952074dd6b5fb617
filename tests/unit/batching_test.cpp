// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/batching.hpp"
#include "runtime/copies.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("batching: requests are joined along the batch axis and cut again") {
  std::vector<tensor_list> requests{{floats({1, 3}, 0)}, {floats({2, 3}, 10)}};
  auto batch = gather(requests, 0);
  REQUIRE(batch);
  CHECK((*batch)[0].extents == shape{3, 3});
  CHECK(values_of((*batch)[0])
        == std::vector<float>{0, 1, 2, 10, 11, 12, 13, 14, 15});
  std::vector<size_t> rows{1, 2};
  auto parts = scatter(*batch, rows, 0);
  REQUIRE(parts);
  CHECK((*parts)[0] == requests[0]);
  CHECK((*parts)[1] == requests[1]);
  CHECK((*parts)[1][0].data.data() == (*batch)[0].data.data() + 12);
}

TEST_CASE("batching: the batch axis need not be the first") {
  std::vector<tensor_list> requests{{floats({2, 1}, 0)}, {floats({2, 2}, 10)}};
  auto batch = gather(requests, 1);
  REQUIRE(batch);
  CHECK(values_of((*batch)[0]) == std::vector<float>{0, 10, 11, 1, 12, 13});
  std::vector<size_t> rows{1, 2};
  CHECK((*scatter(*batch, rows, 1))[1] == requests[1]);
}

TEST_CASE("batching: a single request is not copied") {
  std::vector<tensor_list> requests{{floats({1, 3})}};
  CHECK((*gather(requests, 0))[0].data.data() == requests[0][0].data.data());
}

TEST_CASE("batching: copied bytes are counted and forwarded bytes are not") {
  std::vector<tensor_list> alone{{floats({1, 3})}};
  auto before = bytes_copied();
  REQUIRE(gather(alone, 0));
  CHECK(bytes_copied() == before);
  std::vector<tensor_list> two{{floats({2, 1})}, {floats({2, 2})}};
  auto batch = gather(two, 1);
  REQUIRE(batch);
  CHECK(bytes_copied() == before + 24);
  std::vector<size_t> rows{1, 2};
  REQUIRE(scatter(*batch, rows, 1)); // its rows are not contiguous
  CHECK(bytes_copied() == before + 48);
}

TEST_CASE("P14: tensors without bytes are split and joined at any extents") {
  tensor none{dtype::u8, {int64_t{1} << 60, 2, 0}, {}};
  std::vector<size_t> rows{1, 1};
  auto parts = scatter({none}, rows, 1);
  REQUIRE(parts);
  CHECK((*parts)[1][0].extents == shape{int64_t{1} << 60, 1, 0});
  auto batch = gather(*parts, 1);
  REQUIRE(batch);
  CHECK((*batch)[0] == none);
}

TEST_CASE("batching: a model that changes the number of rows is an error") {
  std::vector<size_t> rows{1, 1};
  CHECK(scatter({floats({3, 2})}, rows, 0).failure().code == ec::internal);
}

TEST_CASE("batching: requests are mergeable if all other extents agree") {
  CHECK(mergeable({floats({1, 4})}, {floats({3, 4})}, 0));
  CHECK_FALSE(mergeable({floats({1, 4})}, {floats({1, 5})}, 0));
  CHECK_FALSE(mergeable({floats({1, 4})}, {floats({1, 4})}, -1));
}
