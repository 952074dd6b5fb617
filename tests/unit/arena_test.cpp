// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <optional>
#include <set>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "models/confined/arena_pool.hpp"
#include "runtime/records.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;
using confined::arena;
using confined::arena_pool;

namespace {

arena made(size_t bytes = 1 << 20) {
  auto x = arena::make(bytes);
  REQUIRE(x);
  return std::move(*x);
}

/// Overwrites a field in the arena's description of the first tensor, as a
/// hostile process could: 64 bytes of extents, then offset, bytes, type and
/// rank.
template <class T>
void overwrite(const arena& x, size_t at, T value) {
  REQUIRE(::pwrite(x.file().get(), &value, sizeof value, static_cast<off_t>(at))
          == sizeof value);
}

constexpr size_t offset = 64, bytes = 72, type = 80, rank = 84;

} // namespace

TEST_CASE("arena: tensors are read as they were written") {
  auto x = made();
  tensor_list in{floats({2, 3}), floats({0, 3}), floats({5}, 7)};
  REQUIRE(x.put(in));
  auto copied = x.copy(3);
  auto viewed = x.view(3);
  REQUIRE(copied);
  REQUIRE(viewed);
  CHECK(*copied == in);
  CHECK(*viewed == in);
}

TEST_CASE("arena: outputs that are views of inputs are not copied if their "
          "place allows it") {
  auto x = made();
  REQUIRE(x.put(std::vector{floats({96})}));
  auto inputs = x.view(1);
  REQUIRE(inputs);
  auto part = [&](size_t first, int64_t n) {
    return *tensor::make(dtype::f32, {n},
                         (*inputs)[0].data.slice(4 * first, 4 * n));
  };
  // The second output begins at an offset that an arena cannot describe. The
  // fourth begins where the first does.
  tensor_list outputs{part(0, 48), part(52, 44), part(48, 4), part(0, 16)};
  CHECK(x.put(outputs, arena::bytes_for(*inputs)) == 4 * (44 + 16));
  auto y = x.view(4);
  REQUIRE(y);
  CHECK((*y)[0].data.data() == (*inputs)[0].data.data());
  CHECK((*y)[2].data.data() == (*inputs)[0].data.data() + 192);
  for (auto [i, first] : {std::pair{0, 0.f}, {1, 52.f}, {2, 48.f}, {3, 0.f}})
    CHECK(values_of((*y)[i]).front() == first);
}

TEST_CASE("arena: tensors outside the region that stays are copied") {
  auto x = made();
  REQUIRE(x.put(std::vector{floats({96})}));
  auto all = x.behind(0), first = x.behind(arena::bytes_for({}));
  CHECK(x.behind(x.size() + 1).empty());
  tensor_list outputs{*tensor::make(dtype::u8, {64}, all.slice(0, 64)),
                      *tensor::make(dtype::u8, {512}, first.slice(4096, 512))};
  CHECK(x.put(outputs, arena::bytes_for({}) + 384) == 576);
}

TEST_CASE("arena: tensors that do not fit are not written") {
  auto x = made(64 << 10);
  REQUIRE(x.put(std::vector{floats({4})}));
  CHECK_FALSE(x.put(std::vector{floats({20'000})}));
  CHECK_FALSE(x.put(std::vector<tensor>(most_tensors + 1, floats({1}))));
  auto y = x.copy(1);
  REQUIRE(y);
  CHECK((*y)[0] == floats({4}));
}

TEST_CASE("P14: an arena refuses wrong descriptions of tensors from a confined "
          "process") {
  auto x = made();
  auto fresh = [&] { REQUIRE(x.put(std::vector{floats({4})})); };
  auto refused = [&] {
    auto y = x.copy(1);
    return !y && y.failure().code == ec::internal;
  };
  fresh();
  CHECK_FALSE(refused());
  for (int64_t wrong : {-1, 5, 1 << 30}) {
    fresh();
    overwrite(x, 0, wrong); // the first extent
    CHECK(refused());
  }
  for (uint64_t wrong : {uint64_t{1} << 20, ~uint64_t{0}, uint64_t{65}}) {
    fresh();
    overwrite(x, offset, wrong);
    CHECK(refused());
  }
  for (uint64_t wrong : {uint64_t{0}, uint64_t{1} << 20, ~uint64_t{0}}) {
    fresh();
    overwrite(x, bytes, wrong);
    CHECK(refused());
  }
  for (int32_t wrong : {-1, 10, 1 << 30}) {
    fresh();
    overwrite(x, type, wrong);
    CHECK(refused());
    fresh();
    overwrite(x, rank, wrong);
    CHECK(refused());
  }
  fresh();
  CHECK_FALSE(x.copy(65));
  CHECK_FALSE(x.copy(~size_t{0}));
}

TEST_CASE("P14: tensors of a confined process that overlap are not copied") {
  auto x = made(64 << 10);
  REQUIRE(x.put(std::vector{floats({10'000}), floats({4})}));
  char first[88]; // the description of one tensor
  REQUIRE(::pread(x.file().get(), first, sizeof first, 0) == sizeof first);
  REQUIRE(x.copy(2));
  REQUIRE(::pwrite(x.file().get(), first, sizeof first, sizeof first)
          == sizeof first);
  auto y = x.copy(2);
  REQUIRE_FALSE(y);
  CHECK(y.failure().text.find("overlap") != std::string::npos);
}

TEST_CASE(
  "P14: a confined process cannot shrink or seal shared memory of the node") {
  auto x = made();
  CHECK(::ftruncate(x.file().get(), 0) != 0);
  CHECK(::ftruncate(x.file().get(), 2 << 20) != 0);
  CHECK(::fcntl(x.file().get(), F_ADD_SEALS, F_SEAL_WRITE) != 0);
}

TEST_CASE("arena_pool: a slot has one user until its last reference is gone") {
  arena_pool pool;
  std::set<uint32_t> numbers;
  std::vector<std::shared_ptr<arena_pool::slot>> taken;
  for (uint32_t i = 0; i < arena_pool::size; ++i) {
    taken.push_back(pool.take());
    REQUIRE(taken.back());
    numbers.insert(taken.back()->number);
  }
  CHECK(numbers.size() == arena_pool::size);
  CHECK(*numbers.rbegin() == arena_pool::size - 1);
  CHECK(pool.take() == nullptr);
  auto other_user = taken[1];
  taken[1].reset();
  CHECK(pool.take() == nullptr);
  auto number = other_user->number;
  other_user.reset();
  auto again = pool.take();
  REQUIRE(again);
  CHECK(again->number == number);
}

TEST_CASE("arena_pool: a slot in use outlives the pool") {
  auto pool = std::make_optional<arena_pool>();
  auto mine = pool->take();
  mine->memory = made();
  REQUIRE(mine->memory.put(std::vector{floats({3})}));
  pool.reset();
  CHECK((*mine->memory.view(1))[0] == floats({3}));
}

TEST_CASE("records: a record that is too short or too long or missing ends the "
          "connection") {
  auto ends = make_connection();
  REQUIRE(ends);
  auto& [a, b] = *ends;
  constexpr timestamp passed{};
  uint64_t x = 0;
  CHECK(receive_record(b, x, passed) == received::nothing);
  REQUIRE(send_record(a, uint64_t{7}));
  CHECK(receive_record(b, x) == received::record);
  CHECK(x == 7);
  REQUIRE(send_record(a, uint32_t{7}));
  CHECK(receive_record(b, x) == received::ended);
  REQUIRE(send_record(a, std::array<uint64_t, 2>{}));
  CHECK(receive_record(b, x) == received::ended);
  a = file_descriptor{};
  CHECK(receive_record(b, x) == received::ended);
  CHECK_FALSE(send_record(b, x));
}

TEST_CASE(
  "records: open files are received only where the receiver accepts files") {
  auto ends = make_connection();
  REQUIRE(ends);
  auto& [a, b] = *ends;
  auto file = made();
  std::array files{file.file().get(), file.file().get()};
  REQUIRE(send_record(a, uint64_t{1}, files));
  uint64_t x = 0;
  std::vector<file_descriptor> got;
  CHECK(receive_record(b, x, far_future, &got) == received::record);
  CHECK(got.size() == 2);
  REQUIRE(send_record(a, uint64_t{2}, files));
  auto next = ::dup(a.get()); // the number that a received file would get
  ::close(next);
  CHECK(receive_record(b, x) == received::record);
  CHECK(::fcntl(next, F_GETFD) == -1);
}
