// SPDX-License-Identifier: Apache-2.0

/// \file
/// Tests that need CUDA's runtime library and no GPU.
#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "models/gpu/cuda/missing_ranges.hpp"
#include "models/gpu/cuda/partition.hpp"
#include "models/gpu/cuda/pinned_pool.hpp"
#include "models/gpu/cuda/pinned_ranges.hpp"
#include "models/gpu/cuda/turns.hpp"
#include "models/gpu/cuda/upload.hpp"
#include "tests/support/allocation_meter.hpp"

using namespace millrace::cuda;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// Allocations of ordinary memory and their releases.
struct noted {
  std::mutex mutex;
  std::vector<size_t> taken; ///< guarded by mutex
  size_t released = 0;       ///< guarded by mutex
};

class noting_source : public pinned_source {
public:
  explicit noting_source(noted& to) : to_(to) {}
  void* allocate(size_t bytes) override {
    std::lock_guard guard{to_.mutex};
    to_.taken.push_back(bytes);
    return ::operator new(bytes);
  }
  void release(void* x) override {
    std::lock_guard guard{to_.mutex};
    ++to_.released;
    ::operator delete(x);
  }

private:
  noted& to_;
};

} // namespace

TEST_CASE("IF-28: memory for batches of known sizes is not allocated again") {
  noted seen;
  pinned_pool pool{std::make_unique<noting_source>(seen)};
  for (int i = 0; i < 100; ++i)
    for (size_t bytes : {1'000, 600'000, 5'000'000}) {
      auto a = pool.take(bytes);
      auto b = pool.take(bytes);
      CHECK(a.size() >= bytes);
      CHECK(a.data() != b.data());
    }
  CHECK(pool.allocations() == 6);
  CHECK(seen.taken.size() == 6);
  CHECK(seen.released == 0);
}

TEST_CASE(
  "pinned pool: all memory is released with the last block and not before") {
  noted seen;
  auto pool =
    std::make_unique<pinned_pool>(std::make_unique<noting_source>(seen));
  {
    auto kept = pool->take(100);
    { auto other = pool->take(100); }
    pool.reset();
    CHECK(seen.released == 0);
  }
  CHECK(seen.released == 2);
}

TEST_CASE("pinned pool: threads never share a block") {
  noted seen;
  pinned_pool pool{std::make_unique<noting_source>(seen)};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      for (int k = 0; k < 2000; ++k) {
        auto x = pool.take(64);
        auto* at = reinterpret_cast<volatile int*>(x.data());
        *at = i;
        std::this_thread::yield();
        wrong += *at != i;
      }
    });
  for (auto& t : threads)
    t.join();
  CHECK(wrong == 0);
  CHECK(pool.allocations() <= 4);
}

TEST_CASE(
  "pinned ranges: contain a block only if it lies wholly within one range") {
  pinned_ranges all;
  static const char memory[100] = {};
  all.add(memory + 10, 20);
  all.add(memory + 50, 10);
  CHECK(all.have(memory + 10, 20));
  CHECK(all.have(memory + 29, 1));
  CHECK(all.have(memory + 30, 0));
  CHECK_FALSE(all.have(memory + 9, 2));
  CHECK_FALSE(all.have(memory + 29, 2));
  CHECK_FALSE(all.have(memory + 40, 15));
  CHECK(all.have(memory + 55, 5));
  CHECK(all.remove(memory + 10));
  CHECK_FALSE(all.remove(memory + 10));
  CHECK_FALSE(all.have(memory + 10, 1));
}

TEST_CASE("turns: the lock is granted in FIFO order") {
  turns one;
  std::vector<int> order;
  one.lock();
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) {
    auto before = one.asked();
    threads.emplace_back([&, i] {
      one.lock();
      order.push_back(i);
      one.unlock();
    });
    while (one.asked() == before)
      std::this_thread::yield();
  }
  one.unlock();
  for (auto& t : threads)
    t.join();
  CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
}

TEST_CASE("shares: a share is rounded up to the steps of a GPU") {
  // 33 rounded up to steps of eight
  CHECK(multiprocessors_for(25, 132, {8, 8}) == 40);
  CHECK(multiprocessors_for(1, 132, {8, 8}) == 8);
  CHECK(multiprocessors_for(50, 132, {8, 8}) == 72);
  CHECK(multiprocessors_for(100, 132, {8, 8}) == 132);
  CHECK(multiprocessors_for(50, 80, {2, 2}) == 40);
}

TEST_CASE("shares: partitions are disjoint while multiprocessors are free and "
          "overlap after that") {
  used_multiprocessors all;
  CHECK(all.take(40, 132) == 0);
  CHECK(all.take(72, 132) == 40);
  CHECK(all.take(40, 132) == 0); // none are free
  all.give_back(40, 72);
  CHECK(all.take(64, 132) == 40);
  all.give_back(0, 40);
  all.give_back(0, 40);
  CHECK(all.take(16, 132) == 0);
}

TEST_CASE(
  "failures: an error names the failed action and CUDA's text and number") {
  try {
    check(cudaSuccess, "something else");
    check(cudaErrorMemoryAllocation, "taking memory");
    FAIL("it was taken for a success");
  } catch (const failure& x) {
    CHECK(std::string{x.what()}
          == "taking memory: out of memory (CUDA error 2)");
    CHECK_FALSE(loses_context(x.code()));
  }
  CHECK(loses_context(cudaErrorAssert));
  CHECK(loses_context(cudaErrorIllegalAddress));
  CHECK_FALSE(loses_context(cudaErrorInvalidValue));
  CHECK_FALSE(loses_context(cudaErrorNotReady));
}

TEST_CASE("failures: without a GPU every resource throws a failure") {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0)
    return; // this host has a GPU
  CHECK_THROWS_AS(stream{}, failure);
  CHECK_THROWS_AS(memory::of_gpu(100), failure);
  CHECK_THROWS_AS(memory::of_host(100), failure);
  CHECK_THROWS_AS(pinned_by_cuda()->allocate(100), failure);
  CHECK_THROWS_AS((partition{0, 8}), failure);
  CHECK_THROWS_AS(partitions{}.take(50), failure);
}

namespace {

using ranges = std::vector<std::pair<size_t, size_t>>;

ranges take(missing_ranges& from, size_t begin, size_t end) {
  auto out = from.within(begin, end);
  for (auto [x, y] : out)
    from.remove(x, y);
  return out;
}

} // namespace

TEST_CASE("missing ranges: a range that arrived is removed once") {
  missing_ranges all;
  all.add(0, 100);
  CHECK(take(all, 20, 30) == ranges{{20, 30}});
  CHECK(take(all, 25, 40) == ranges{{30, 40}});
  CHECK(take(all, 20, 40).empty());
  CHECK(take(all, 10, 60) == ranges{{10, 20}, {40, 60}});
  CHECK(take(all, 0, 100) == ranges{{0, 10}, {60, 100}});
  CHECK(take(all, 0, 100).empty());
}

TEST_CASE(
  "missing ranges: an arrived range may split ranges and cover others") {
  missing_ranges all;
  for (size_t i : {0, 20, 40, 60})
    all.add(i, i + 10);
  all.add(80, 80); // an empty range
  all.remove(5, 45);
  CHECK(all.within(0, 100) == ranges{{0, 5}, {45, 50}, {60, 70}});
  all.remove(62, 64);
  CHECK(all.within(61, 100) == ranges{{61, 62}, {64, 70}});
  CHECK(all.within(5, 45).empty());
}

TEST_CASE("missing ranges: no range is lost when memory runs out") {
  missing_ranges all;
  all.add(0, 100);
  for (size_t nth : {1, 2})
    try {
      failing_allocation fails{nth};
      all.remove(40, 60);
      CHECK_FALSE(failing_allocation::possible);
    } catch (const std::bad_alloc&) {
      size_t bytes = 0;
      for (auto [begin, end] : all.within(0, 100))
        bytes += end - begin;
      CHECK(bytes == 100);
    }
  all.remove(0, 100);
  CHECK(all.within(0, 100).empty());
}

TEST_CASE("missing ranges: a waiter waits until its own range is complete") {
  missing_ranges all;
  all.add(0, 100);
  auto have = [&](size_t begin, size_t end) {
    return std::async(std::launch::async,
                      [&all, begin, end] { return all.wait(begin, end); });
  };
  auto first = have(0, 10), across = have(10, 30), last = have(90, 100);
  all.remove(10, 20);
  all.remove(0, 10);
  CHECK(first.get());
  CHECK(across.wait_for(20ms) == std::future_status::timeout);
  all.remove(20, 25);
  all.remove(25, 30);
  CHECK(across.get());
  CHECK(all.wait(5, 25));
  CHECK(all.wait(40, 40));
  all.give_up();
  CHECK_FALSE(last.get());
  CHECK_FALSE(all.wait(29, 31));
  CHECK(all.wait(0, 30)); // this range is present
}
