// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <mutex>

#include <unistd.h>

#include "models/bundle_store.hpp"
#include "models/confined/process_state.hpp"
#include "models/device/device.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/children.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

const backend_settings in_threads{isolation_mode::thread};

/// A model of the tests with four numbers per row. A confined process maps its
/// weights, so they need verified hashes.
std::shared_ptr<const bundle> opened(const std::string& model,
                                     verify how = verify::sizes) {
  auto x = bundle_store{TEST_BUNDLES}.open(model, "", how);
  REQUIRE(x);
  return std::make_shared<const bundle>(std::move(*x));
}

/// Waits until a device has loaded a model or executed a batch.
class waiting_listener : public device_listener {
public:
  void on_loaded(instance_id, result<load_report> x) override {
    loaded.set_value(static_cast<bool>(x));
  }
  void on_lost(instance_id, error) override {}
  void on_executed(execution_report x) override {
    executed.set_value(static_cast<bool>(x.outputs));
  }
  std::promise<bool> loaded, executed;
};

/// Records the order in which batches end.
class order_listener : public device_listener {
public:
  void on_loaded(instance_id, result<load_report> x) override {
    loaded.set_value(static_cast<bool>(x));
  }
  void on_lost(instance_id, error) override {}
  void on_executed(execution_report x) override {
    std::lock_guard guard{mutex};
    ended.push_back(x.id);
    if (ended.size() == 3) // the number of batches of the test
      all.set_value();
  }
  std::promise<bool> loaded;
  std::promise<void> all;
  std::mutex mutex;
  std::vector<uint64_t> ended;
};

/// Accepts the results of batch 1 only when the test sets `go_on`.
class slow_listener : public waiting_listener {
public:
  void on_executed(execution_report x) override {
    if (x.id == 1)
      go_on.get_future().wait();
    else if (++others == 2)
      executed.set_value(true);
  }
  std::promise<void> go_on;
  std::atomic<int> others{0};
};

/// Records the result, thread and duration of a batch.
class noting_listener : public waiting_listener {
public:
  void on_executed(execution_report x) override {
    status = x.outputs ? ec::ok : x.outputs.failure().code;
    thread = ::gettid();
    took = x.ended - x.started;
    waiting_listener::on_executed(std::move(x));
  }
  ec status = ec::internal;
  pid_t thread = 0;
  nanoseconds took{0};
};

size_t count_threads() {
  return static_cast<size_t>(
    std::distance(std::filesystem::directory_iterator{"/proc/self/task"}, {}));
}

} // namespace

TEST_CASE("backend_device, IF-34: an execution on a CPU device has the threads "
          "of its replica") {
  auto shared = opened("ballast");
  auto threads_with = [&](uint32_t threads) {
    waiting_listener listener;
    auto cpu =
      make_backend_device({"cpu0", "cpu", 1, {}}, in_threads, listener);
    REQUIRE(cpu);
    (*cpu)->load({1, shared, 0, 1, 1, threads}, {});
    REQUIRE(listener.loaded.get_future().get());
    (*cpu)->execute({1, 1, 0, 0, far_future, {{floats({1, 4})}}, {}}, {});
    REQUIRE(listener.executed.get_future().get());
    return count_threads();
  };
  auto alone = threads_with(1);
  CHECK(threads_with(1) == alone);
  CHECK(threads_with(4) >= alone + 3);
}

TEST_CASE("backend_device: a changed number of threads holds for the next "
          "executions in the node and in a process") {
  auto shared = opened("ballast", verify::hashes);
  auto threads_of_process = [] {
    auto all = grandchildren_of(::getpid());
    REQUIRE(all.size() == 1);
    return static_cast<size_t>(confined::look_at(*all.begin()).threads);
  };
  for (auto where : {isolation_mode::thread, isolation_mode::process}) {
    CAPTURE(to_string(where));
    waiting_listener listener;
    auto cpu = make_backend_device({"cpu0", "cpu", 1, {}}, {where}, listener);
    REQUIRE(cpu);
    (*cpu)->load({1, shared, 0, 1, 1, 1}, {});
    REQUIRE(listener.loaded.get_future().get());
    auto threads_after_run = [&] {
      listener.executed = {};
      (*cpu)->execute({1, 1, 0, 0, far_future, {{floats({1, 4})}}, {}}, {});
      REQUIRE(listener.executed.get_future().get());
      return where == isolation_mode::thread ? count_threads()
                                             : threads_of_process();
    };
    auto before = threads_after_run();
    CHECK(threads_after_run() == before);
    (*cpu)->set_threads(1, 4);
    CHECK(threads_after_run() >= before + 3);
    (*cpu)->set_threads(9, 4); // an unknown instance
  }
}

TEST_CASE("backend_device: a whole replica is loaded beside the part it "
          "completes and serves after the part ends") {
  auto shared = opened("affine");
  waiting_listener part;
  auto cpu = make_backend_device({"cpu0", "cpu", 1, {}}, in_threads, part);
  REQUIRE(cpu);
  (*cpu)->load({1, shared, 0, 1, 1, 1}, {});
  REQUIRE(part.loaded.get_future().get());
  part.loaded = {};
  (*cpu)->load({2, shared, 0, 1, 1, 1, 0, false, 1}, {});
  REQUIRE(part.loaded.get_future().get());
  (*cpu)->unload(1);
  (*cpu)->execute({1, 2, 0, 0, far_future, {{floats({1, 4})}}, {}}, {});
  CHECK(part.executed.get_future().get());
}

TEST_CASE(
  "backend_device: a waiting batch is run by the lane that is free first") {
  order_listener listener;
  auto cpu = make_backend_device({"cpu0", "cpu", 2, {}}, in_threads, listener);
  REQUIRE(cpu);
  (*cpu)->load({1, opened("affine"), 0, 1, 1, 1}, {});
  REQUIRE(listener.loaded.get_future().get());
  auto rows = [&](uint64_t id, int64_t n) {
    (*cpu)->execute({id, 1, 0, 0, far_future, {{floats({n, 4})}}, {}}, {});
  };
  rows(1, 8'000'000); // far longer than the other batches
  rows(2, 20'000);    // too long to be run by the caller
  rows(3, 20'000);
  listener.all.get_future().get();
  CHECK(listener.ended.back() == 1);
}

TEST_CASE("IF-30: a listener that is slow to accept results of one batch does "
          "not delay other lanes") {
  slow_listener listener;
  auto cpu = make_backend_device({"cpu0", "cpu", 2, {}}, in_threads, listener);
  REQUIRE(cpu);
  (*cpu)->load({1, opened("affine"), 0, 1, 1, 1}, {});
  REQUIRE(listener.loaded.get_future().get());
  for (uint64_t id : {1, 2, 3}) // the results of batch 1 are accepted last
    (*cpu)->execute({id, 1, 0, 0, far_future, {{floats({200'000, 4})}}, {}},
                    {});
  auto others = listener.executed.get_future();
  CHECK(others.wait_for(20s) == std::future_status::ready);
  listener.go_on.set_value();
}

TEST_CASE("backend_device: batches that were not run have no effect on the "
          "expected time of a run") {
  noting_listener listener;
  auto cpu = make_backend_device({"cpu0", "cpu", 1, {}}, in_threads, listener);
  REQUIRE(cpu);
  (*cpu)->load({1, opened("affine"), 0, 1, 1, 1}, {});
  REQUIRE(listener.loaded.get_future().get());
  std::stop_source unwanted;
  unwanted.request_stop();
  auto run = [&](std::stop_token stop, timestamp until) {
    listener.executed = {};
    (*cpu)->execute({1,
                     1,
                     0,
                     0,
                     until,
                     {{floats({1'000'000, 4})}},
                     {},
                     false,
                     std::move(stop)},
                    {});
    listener.executed.get_future().wait();
  };
  for (int i = 0; i < 5; ++i) {
    run(unwanted.get_token(), far_future);
    CHECK(listener.status == ec::cancelled);
    run({}, {}); // a deadline in the past
    CHECK(listener.status == ec::deadline_exceeded);
  }
  run({}, far_future); // far longer than the limit for runs by the caller
  CHECK(listener.status == ec::ok);
  CHECK(listener.thread != ::gettid());
}

TEST_CASE("backend_device: with a pace of 40 a batch takes forty times its "
          "computation on the lane") {
  auto shared = opened("affine");
  struct quickest {
    nanoseconds took;
    bool on_caller;
  };
  auto run_with = [&](double pace) {
    noting_listener listener;
    auto how = in_threads;
    how.pace = pace;
    auto cpu = make_backend_device({"cpu0", "cpu", 1, {}}, how, listener);
    REQUIRE(cpu);
    (*cpu)->load({1, shared, 0, 1, 1, 1}, {});
    REQUIRE(listener.loaded.get_future().get());
    quickest out{1h, false};
    for (int i = 0; i < 10; ++i) {
      listener.executed = {};
      (*cpu)->execute({1, 1, 0, 0, far_future, {{floats({50'000, 4})}}, {}},
                      {});
      REQUIRE(listener.executed.get_future().get());
      out.took = std::min(out.took, listener.took);
      out.on_caller = out.on_caller || listener.thread == ::gettid();
    }
    return out;
  };
  auto alone = run_with(1), paced = run_with(40);
  MESSAGE("alone " << alone.took.count() << " ns, paced " << paced.took.count()
                   << " ns");
  CHECK(paced.took > 20 * alone.took);
  CHECK(paced.took < 80 * alone.took);
  CHECK_FALSE(paced.on_caller);
}

TEST_CASE(
  "backend_device: the end of a paced device ends the waits of its lanes") {
  auto shared = opened("affine");
  noting_listener listener;
  auto how = in_threads;
  how.pace = 1e6; // hours for any batch
  timestamp begin;
  {
    auto cpu = make_backend_device({"cpu0", "cpu", 1, {}}, how, listener);
    REQUIRE(cpu);
    (*cpu)->load({1, shared, 0, 1, 1, 1}, {});
    REQUIRE(listener.loaded.get_future().get());
    (*cpu)->execute({1, 1, 0, 0, far_future, {{floats({1'000'000, 4})}}, {}},
                    {});
    auto done = listener.executed.get_future();
    REQUIRE(done.wait_for(1s) == std::future_status::timeout);
    begin = steady_now();
  }
  CHECK(steady_now() - begin < 60s);
}
