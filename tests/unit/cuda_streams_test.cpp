// SPDX-License-Identifier: Apache-2.0

/// \file
/// Order of work on a GPU and release of its resources, tested against a fake
/// of CUDA's runtime.
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <future>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include "models/gpu/cuda/batch_lane.hpp"
#include "models/gpu/cuda/partition.hpp"
#include "models/gpu/cuda/upload.hpp"
#include "tests/support/allocation_meter.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/fake_cuda.hpp"

using namespace millrace::cuda;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

/// Checks that a test releases all its resources, also after a failure.
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

/// A batch of one float. Its kernel doubles the float when the test allows it.
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

TEST_CASE("IF-32: with streaming the inputs of the next batch are copied "
          "during a computation and no result is early") {
  nothing_left check;
  two_lanes on{true};
  doubling first{on.lanes[0], on.pool, 21}, second{on.lanes[1], on.pool, 4};
  second.make_room(); // as if a batch of its size had run before
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

TEST_CASE("IF-31: without streaming a batch begins after the one before "
          "including its copies") {
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

TEST_CASE(
  "lanes: inputs of a new size wait for the previous user of their memory") {
  nothing_left check;
  two_lanes on{true};
  doubling first{on.lanes[0], on.pool, 21}, second{on.lanes[1], on.pool, 4};
  auto one = on.start(first);
  REQUIRE(is_reached(first.begun.get_future()));
  auto two = on.start(second); // maybe in memory of the first batch
  CHECK(two.wait_for(20ms) == std::future_status::timeout);
  CHECK(fake_cuda::so_far().copies == 1);
  first.may_end.set_value();
  second.may_end.set_value();
  one.get();
  two.get();
  CHECK(second.output() == 8);
}

TEST_CASE("lanes: the work of a failed batch ends before its memory is "
          "released and the next batch runs") {
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

TEST_CASE("lanes: a failed CUDA call fails the batch and leaves no resource") {
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
        CHECK(x.output() == 2); // the batch made fewer than nth such calls
      } catch (const failure& e) {
        CHECK(e.code() == cudaErrorMemoryAllocation);
        CHECK(x.abandoned);
      }
    }
}

TEST_CASE("IF-28: batches of known sizes make no streams and lock no memory") {
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

TEST_CASE("upload: all bytes arrive through page-locked memory for any size "
          "and number of threads") {
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

TEST_CASE("upload: a second upload makes no streams and locks no memory") {
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

TEST_CASE("upload: a failed upload reports its CUDA error and leaves no "
          "resource and the next one succeeds") {
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
        run(); // the call fails in any thread, or is made fewer than nth times
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
  "upload: an upload without memory for its threads fails with bad_alloc") {
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

TEST_CASE("P24: a device that lost its context fails from then on and can be "
          "torn down") {
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

TEST_CASE("events: waiting goes on after the phase of busy polling") {
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

TEST_CASE("IF-33, partitions: streams have the multiprocessors of their own "
          "share and are reused") {
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

TEST_CASE("partitions: a stream that cannot be made leaves its share free") {
  nothing_left check;
  partitions all;
  fake_cuda::fail("cuGreenCtxStreamCreate", 1, cudaErrorMemoryAllocation);
  CHECK_THROWS_AS(all.take(50), failure);
  auto next = all.take(50);
  CHECK(next.begin == 0);
  all.give_back(next);
}

TEST_CASE("shares: the steps of a partition depend on the compute capability") {
  CHECK(partition_steps_of(7) == partition_steps{2, 2});
  CHECK(partition_steps_of(8) == partition_steps{4, 2});
  CHECK(partition_steps_of(9) == partition_steps{8, 8});
  CHECK(partition_steps_of(10) == partition_steps{8, 8});
}
