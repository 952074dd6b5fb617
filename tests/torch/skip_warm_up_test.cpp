// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <future>

#include "models/device/device.hpp"
#include "tests/support/confined_model.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/why.hpp"

/// \file
/// A device that reports a model ready before its warm-up.

using namespace millrace;
using namespace millrace::test;

namespace {

constexpr auto soon = 20s;

class listener : public device_listener {
public:
  void on_loaded(instance_id, result<load_report> x) override {
    loaded.set_value(std::move(x));
  }
  void on_lost(instance_id, error x) override { lost.set_value(std::move(x)); }
  void on_executed(execution_report x) override {
    executed.set_value(x.outputs ? ec::ok : x.outputs.failure().code);
  }
  std::promise<result<load_report>> loaded;
  std::promise<error> lost;
  std::promise<ec> executed;
};

/// Whether a confined process has used more than 0.5 s of processor time.
bool somebody_is_busy() {
  auto all = grandchildren_of(::getpid());
  return std::any_of(all.begin(), all.end(),
                     [](pid_t x) { return processor_seconds_of(x) > .5; });
}

template <class T>
T take(std::promise<T>& from) {
  auto x = from.get_future();
  REQUIRE(x.wait_for(soon) == std::future_status::ready);
  return x.get();
}

/// A hostile model that does `does` when it is run.
std::shared_ptr<const bundle> one_that(const std::string& does) {
  bundle x{*hostile()};
  x.info.layers[0].name = does + " later";
  return std::make_shared<const bundle>(std::move(x));
}

/// One model on one lane, the only copy that serves.
class only_copy {
public:
  only_copy(std::shared_ptr<const bundle> model, isolation_mode where,
            nanoseconds load_limit = 20s) {
    backend_settings how{where};
    how.load_limit = load_limit;
    auto cpu = make_backend_device({"cpu0", "cpu", 1, {}}, how, events);
    REQUIRE(cpu);
    device_ = std::move(*cpu);
    load(1, std::move(model));
  }

  void load(instance_id id, std::shared_ptr<const bundle> model) {
    load_request x;
    x.instance = id;
    x.content = std::move(model);
    x.last_layer = 1;
    x.skip_warm_up = true;
    device_->load(std::move(x), {});
    auto report = take(events.loaded);
    events.loaded = {};
    REQUIRE_MESSAGE(report, why(report));
    CHECK(report->warm_up == 0ns);
  }

  ec run(instance_id on, const tensor& x, timestamp until = far_future) {
    device_->execute({1, on, 0, 0, until, {{x}}, {}}, {});
    auto out = take(events.executed);
    events.executed = {};
    return out;
  }
  ec run(float number, timestamp until = far_future) {
    return run(1, floats({1, 4}, number), until);
  }

  listener events;

private:
  std::unique_ptr<device> device_;
};

} // namespace

TEST_CASE(
  "at once: a model answers before its warm-up in a thread and in a process") {
  for (auto where : {isolation_mode::thread, isolation_mode::process}) {
    only_copy model{verified("affine"), where};
    for (int i = 0; i < 3; ++i)
      CHECK(model.run(1) == ec::ok);
  }
}

TEST_CASE(
  "at once: a model is warmed up while idle and is lost if the warm-up fails") {
  only_copy model{one_that("crash"), isolation_mode::process};
  CHECK(take(model.events.lost).code == ec::unavailable);
}

TEST_CASE(
  "at once: an endless warm-up is an error of the model and of no request") {
  only_copy model{one_that("loop"), isolation_mode::process, 300ms};
  auto why = take(model.events.lost);
  CHECK(why.code == ec::unavailable);
  CHECK(why.text.find("took too long") != std::string::npos);
}

TEST_CASE("P14: an endless warm-up delays no other model of its device") {
  only_copy model{one_that("loop"), isolation_mode::process, 3s};
  model.load(2, hostile());
  // the warm-up has begun
  REQUIRE(eventually([] { return somebody_is_busy(); }, soon));
  auto begin = steady_now();
  CHECK(model.run(2, deeds({5000})) == ec::ok); // this model has no work
  CHECK(steady_now() - begin < 1s);
  CHECK(take(model.events.lost).code == ec::unavailable);
}

TEST_CASE("at once: a first pass that is late is not ended because the next "
          "one would be as late") {
  only_copy other{verified("lasting"), isolation_mode::thread};
  auto steps = .5f;
  for (auto took = 0ns; took < 400ms;) {
    auto begin = steady_now();
    REQUIRE(other.run(steps *= 2) == ec::ok);
    took = steady_now() - begin;
  }
  only_copy model{verified("lasting"), isolation_mode::process};
  auto begin = steady_now();
  CHECK(model.run(steps, begin + 100ms) == ec::ok);
  CHECK(steady_now() - begin > 300ms); // or the test shows nothing
  CHECK(model.run(1) == ec::ok);
}
