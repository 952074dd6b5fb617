// SPDX-License-Identifier: Apache-2.0

/// \file
/// What is given to a GPU when, and what is given back: against a fake of
/// CUDA's runtime.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "models/device/cuda/batch_lane.hpp"
#include "models/device/cuda/partition.hpp"
#include "models/device/cuda/upload.hpp"
#include "tests/support/allocation_meter.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_cuda.hpp"

using namespace millrace::cuda;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// All of a test's things are gone in the end, whatever went wrong.
class nothing_left {
public:
  nothing_left() { fake_cuda::reset(); }
  ~nothing_left() {
    fake_cuda::reset();
    CHECK(fake_cuda::what_is_there() == before_);
  }

private:
  fake_cuda::inventory before_ = fake_cuda::what_is_there();
};

std::vector<char> numbered(size_t bytes) {
  std::vector<char> out(bytes);
  for (size_t i = 0; i < bytes; ++i)
    out[i] = static_cast<char>(i * 7 + i / 251);
  return out;
}

bool is_reached(const std::future<void>& x) {
  return x.wait_for(10s) == std::future_status::ready;
}

/// One batch of a float, which its kernel doubles when it is let.
struct doubling {
  doubling(batch_lane& on, pinned_pool& staging, float x)
    : lane(on),
      pool(staging),
      input(x) {}

  bool is_known() const { return room.data() != nullptr; }
  void make_room() {
    room = memory::of_gpu(2 * sizeof input);
    lane.hold_inputs();
  }
  void copy_in() {
    asked_to_copy = true;
    lane.copy_in({{room.data(), &input, sizeof input}}, pool, {});
  }
  void compute() {
    lane.begin_compute();
    auto* x = reinterpret_cast<float*>(room.data());
    fake_cuda::launch(lane.compute(), [this, x] {
      begun.set_value();
      may_end.get_future().wait();
      x[1] = 2 * x[0];
    });
    lane.end_compute();
    if (fails)
      throw std::runtime_error("the model failed");
  }
  void copy_out() {
    result = pool.take(sizeof input);
    lane.copy_out({{result.data(), room.data() + sizeof input, sizeof input}});
  }
  void wait() const { lane.wait(); }
  void abandon() {
    lane.abandon();
    abandoned = true;
  }

  float output() const {
    float out = 0;
    std::memcpy(&out, result.data(), sizeof out);
    return out;
  }

  batch_lane& lane;
  pinned_pool& pool;
  float input;
  std::atomic<bool> asked_to_copy{false};
  bool fails = false;
  bool abandoned = false;
  memory room;
  pinned_pool::block result;
  std::promise<void> begun, may_end;
};

/// Two lanes of one compute stream.
struct two_lanes {
  explicit two_lanes(bool streaming)
    : is_streaming(streaming),
      lanes{{compute.get(), streaming}, {compute.get(), streaming}} {}

  std::future<void> start(doubling& x) {
    auto asked = order.asked();
    auto out = std::async(std::launch::async,
                          [&] { run_in_turn(order, is_streaming, x); });
    while (order.asked() == asked)
      std::this_thread::yield();
    return out;
  }

  bool is_streaming;
  turns order;
  stream compute;
  pinned_pool pool{pinned_by_cuda()};
  batch_lane lanes[2];
};

} // namespace

TEST_CASE("IF-32: with streaming the next batch's inputs are copied while one"
          " computes, and no result comes before it is computed") {
  nothing_left check;
  two_lanes on{true};
  doubling first{on.lanes[0], on.pool, 21}, second{on.lanes[1], on.pool, 4};
  second.make_room(); // as one of its size before
  auto one = on.start(first);
  REQUIRE(is_reached(first.begun.get_future()));
  auto two = on.start(second);
  CHECK(eventually([] { return fake_cuda::so_far().copies == 2; }, 10s));
  CHECK(one.wait_for(0s) == std::future_status::timeout);
  auto next = second.begun.get_future();
  CHECK(next.wait_for(0s) == std::future_status::timeout);
  first.may_end.set_value();
  one.get();
  CHECK(first.output() == 42);
  REQUIRE(is_reached(next));
  CHECK(two.wait_for(0s) == std::future_status::timeout);
  second.may_end.set_value();
  two.get();
  CHECK(second.output() == 8);
  CHECK(fake_cuda::so_far().slow_copies == 0);
}

TEST_CASE("IF-31: without streaming a batch begins when the one before has"
          " ended, copies and all") {
  nothing_left check;
  two_lanes on{false};
  doubling first{on.lanes[0], on.pool, 21}, second{on.lanes[1], on.pool, 4};
  auto one = on.start(first);
  REQUIRE(is_reached(first.begun.get_future()));
  auto two = on.start(second);
  CHECK(two.wait_for(20ms) == std::future_status::timeout);
  CHECK_FALSE(second.asked_to_copy);
  first.may_end.set_value();
  one.get();
  second.may_end.set_value();
  two.get();
  CHECK(first.output() == 42);
  CHECK(second.output() == 8);
}

TEST_CASE("lanes: inputs of a new size wait for what had their memory before") {
  nothing_left check;
  two_lanes on{true};
  doubling first{on.lanes[0], on.pool, 21}, second{on.lanes[1], on.pool, 4};
  auto one = on.start(first);
  REQUIRE(is_reached(first.begun.get_future()));
  auto two = on.start(second); // maybe in the first one's, which it let go
  CHECK(two.wait_for(20ms) == std::future_status::timeout);
  CHECK(fake_cuda::so_far().copies == 1);
  first.may_end.set_value();
  second.may_end.set_value();
  one.get();
  two.get();
  CHECK(second.output() == 8);
}

TEST_CASE("lanes: what a failed batch was given is done with before its memory"
          " goes, and the next one runs") {
  for (auto streaming : {true, false}) {
    nothing_left check;
    two_lanes on{streaming};
    auto failing = std::make_unique<doubling>(on.lanes[0], on.pool, 1.f);
    failing->fails = true;
    auto one = on.start(*failing);
    REQUIRE(is_reached(failing->begun.get_future()));
    CHECK(one.wait_for(20ms) == std::future_status::timeout);
    failing->may_end.set_value();
    CHECK_THROWS_WITH(one.get(), "the model failed");
    CHECK(failing->abandoned);
    failing.reset();
    doubling next{on.lanes[1], on.pool, 3};
    next.may_end.set_value();
    on.start(next).get();
    CHECK(next.output() == 6);
  }
}

TEST_CASE("lanes: whatever call of CUDA's fails, the batch does, and nothing is"
          " left of it") {
  for (auto call : {"cudaMalloc", "cudaHostAlloc", "cudaMemcpyAsync",
                    "cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery"})
    for (size_t nth : {1, 2, 3}) {
      CAPTURE(call);
      CAPTURE(nth);
      nothing_left check;
      two_lanes on{true};
      fake_cuda::fail(call, nth, cudaErrorMemoryAllocation);
      doubling x{on.lanes[0], on.pool, 1};
      x.may_end.set_value();
      try {
        run_in_turn(on.order, true, x);
        CHECK(x.output() == 2); // it was called less often than that
      } catch (const failure& e) {
        CHECK(e.code() == cudaErrorMemoryAllocation);
        CHECK(x.abandoned);
      }
    }
}

TEST_CASE("IF-28: batches of sizes seen before make no streams, and lock no"
          " memory") {
  nothing_left check;
  two_lanes on{true};
  auto run = [&](float value) {
    doubling x{on.lanes[0], on.pool, value};
    x.may_end.set_value();
    run_in_turn(on.order, true, x);
    CHECK(x.output() == 2 * value);
  };
  run(1);
  fake_cuda::reset();
  for (int i = 0; i < 20; ++i)
    run(static_cast<float>(i));
  CHECK(fake_cuda::so_far().streams_made == 0);
  CHECK(fake_cuda::so_far().locked == 0);
}

TEST_CASE("upload: all bytes arrive, by page-locked memory, whatever their"
          " number and that of threads") {
  nothing_left check;
  pinned_pool pool{pinned_by_cuda()};
  uploader to_gpu{pool};
  for (size_t bytes :
       {size_t{0}, size_t{1}, size_t{4096}, size_t{100'001}, size_t{8} << 20}) {
    auto from = numbered(bytes);
    for (unsigned threads : {1u, 3u}) {
      CAPTURE(bytes);
      CAPTURE(threads);
      auto to = memory::of_gpu(bytes + 1);
      to.data()[bytes] = 77;
      size_t told = 0;
      auto wrong = false;
      to_gpu.copy(to.data(), from.data(), bytes,
                  {threads, 64 << 10, 4 << 10, 3000}, [&](size_t there) {
                    wrong |= there <= told
                             || std::memcmp(to.data(), from.data(), there) != 0;
                    told = there;
                  });
      CHECK_FALSE(wrong);
      CHECK(told == bytes);
      CHECK(std::memcmp(to.data(), from.data(), bytes) == 0);
      CHECK(to.data()[bytes] == 77);
    }
  }
  CHECK(fake_cuda::so_far().slow_copies == 0);
}

TEST_CASE("upload: the next one makes nothing anew") {
  nothing_left check;
  pinned_pool pool{pinned_by_cuda()};
  uploader to_gpu{pool};
  auto from = numbered(1 << 20);
  auto to = memory::of_gpu(from.size());
  auto run = [&] {
    to_gpu.copy(to.data(), from.data(), from.size(),
                {1, 64 << 10, 4 << 10, 4 << 10});
  };
  run();
  fake_cuda::reset();
  for (int i = 0; i < 5; ++i)
    run();
  CHECK(fake_cuda::so_far().streams_made == 0);
  CHECK(fake_cuda::so_far().locked == 0);
}

TEST_CASE("upload: one that fails says why, leaves nothing, and the next one"
          " goes through") {
  auto from = numbered(1 << 20);
  for (auto call : {"cudaMemcpyAsync", "cudaStreamCreateWithFlags",
                    "cudaEventCreateWithFlags", "cudaHostAlloc",
                    "cudaEventRecord", "cudaEventQuery"})
    for (size_t nth : {1, 2, 3}) {
      CAPTURE(call);
      CAPTURE(nth);
      nothing_left check;
      pinned_pool pool{pinned_by_cuda()};
      uploader to_gpu{pool};
      auto to = memory::of_gpu(from.size());
      auto run = [&] {
        to_gpu.copy(to.data(), from.data(), from.size(),
                    {2, 64 << 10, 64 << 10, 8 << 10});
      };
      fake_cuda::fail(call, nth, cudaErrorMemoryAllocation);
      try {
        run(); // whichever thread it hits, it may not be called so often
      } catch (const failure& e) {
        CHECK(e.code() == cudaErrorMemoryAllocation);
      }
      fake_cuda::reset();
      std::memset(to.data(), 0, from.size());
      run();
      CHECK(std::memcmp(to.data(), from.data(), from.size()) == 0);
    }
}

TEST_CASE(
  "upload: one for whose threads there is no memory ends, and says so") {
  auto from = numbered(1 << 20);
  auto failed = 0;
  for (size_t nth = 1; nth <= 40; ++nth) {
    nothing_left check;
    pinned_pool pool{pinned_by_cuda()};
    uploader to_gpu{pool};
    auto to = memory::of_gpu(from.size());
    try {
      failing_allocation fails{nth};
      to_gpu.copy(to.data(), from.data(), from.size(), {4, 64 << 10});
    } catch (const std::bad_alloc&) {
      ++failed;
      continue;
    }
    CHECK(std::memcmp(to.data(), from.data(), from.size()) == 0);
  }
  CHECK((failed > 10 || !failing_allocation::possible));
}

TEST_CASE("P24: what has lost its context fails from then on, and is torn down"
          " all the same") {
  nothing_left check;
  two_lanes on{true};
  fake_cuda::fail("cudaEventQuery", 1, cudaErrorIllegalAddress);
  doubling x{on.lanes[0], on.pool, 1};
  x.may_end.set_value();
  try {
    run_in_turn(on.order, true, x);
    FAIL("it went through");
  } catch (const failure& e) {
    CHECK(loses_context(e.code()));
  }
  CHECK_THROWS_AS(memory::of_gpu(100), failure);
  CHECK_THROWS_AS(stream{}, failure);
}

TEST_CASE("events: are waited for beyond the time that a processor is kept"
          " busy") {
  nothing_left check;
  stream on;
  event done;
  std::promise<void> may_end;
  fake_cuda::launch(on.get(), [&] { may_end.get_future().wait(); });
  done.record(on.get());
  auto waits = std::async(std::launch::async, [&] { done.wait(100us); });
  CHECK(waits.wait_for(20ms) == std::future_status::timeout);
  may_end.set_value();
  waits.get();
}

TEST_CASE("IF-33, partitions: streams have the multiprocessors of their share,"
          " apart from others', and are kept") {
  nothing_left check;
  partitions all;
  auto half = all.take(50);
  auto quarter = all.take(25);
  using place = std::pair<unsigned, unsigned>;
  CHECK(fake_cuda::multiprocessors_of(half.stream) == place{0, 72});
  CHECK(fake_cuda::multiprocessors_of(quarter.stream) == place{72, 40});
  auto kept = quarter.stream;
  all.give_back(quarter);
  fake_cuda::reset();
  for (int i = 0; i < 10; ++i) {
    auto again = all.take(25);
    CHECK(again.stream == kept);
    all.give_back(again);
  }
  CHECK(fake_cuda::so_far().streams_made == 0);
  CHECK(fake_cuda::what_is_there().partitions == 2);
  all.give_back(half);
}

TEST_CASE(
  "partitions: a stream that cannot be made leaves its share to others") {
  nothing_left check;
  partitions all;
  fake_cuda::fail("cuGreenCtxStreamCreate", 1, cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(all.take(50), failure);
  auto next = all.take(50);
  CHECK(next.begin == 0);
  all.give_back(next);
}

TEST_CASE("shares: a part of the multiprocessors in the steps that a GPU has") {
  CHECK(partition_steps_of(7) == partition_steps{2, 2});
  CHECK(partition_steps_of(8) == partition_steps{4, 2});
  CHECK(partition_steps_of(9) == partition_steps{8, 8});
  CHECK(partition_steps_of(10) == partition_steps{8, 8});
}
