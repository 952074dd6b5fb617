// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "models/device/emulated_device.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// The first row takes 10 ms and each further row 1 ms.
profile profile_of(const std::string& model) {
  profile out{model, {}};
  for (auto [rows, seconds] : {std::pair{1., 0.010}, std::pair{11., 0.020}})
    out.points.push_back(
      {"d", rows, {}, {{"execute_seconds", seconds}, {"load_seconds", 0.05}}});
  return out;
}

/// An emulated device on a clock that the test moves, and the times of batches.
class device_on_a_clock : private device_listener {
public:
  device_on_a_clock(std::vector<profile> known, uint32_t lanes,
                    const contention_settings& law = {}, uint64_t seed = 0) {
    emulation how;
    how.interference = law;
    emulated_environment environment;
    environment.profiles = std::make_shared<profile_book>(std::move(known));
    environment.contention_seed = seed;
    device_ = make_emulated_device({"emu0", "d", lanes, {}}, how, *this,
                                   std::move(environment));
  }

  void load(instance_id id, const std::string& model, uint32_t threads = 1) {
    load_request x;
    x.instance = id;
    x.content = make_bundle(model);
    x.last_layer = 1;
    x.threads = threads;
    device_->load(std::move(x), now_);
    settle();
  }

  void set_threads(instance_id id, uint32_t threads) {
    device_->set_threads(id, threads);
  }

  /// Begins a batch without waiting for its end.
  void begin(uint64_t batch, instance_id id, int64_t rows = 1,
             double share = 0) {
    execution x;
    x.id = batch;
    x.instance = id;
    x.share = share;
    x.items = {{floats({rows, 4})}};
    device_->execute(std::move(x), now_);
  }

  /// Advances the clock until no batch runs.
  void settle() {
    while (device_->next_due() != far_future) {
      now_ = device_->next_due();
      device_->advance(now_);
    }
  }

  /// The time of a batch, and its time without neighbours.
  struct times {
    double seconds = 0, solo = 0;
  };
  times of(uint64_t batch) const { return ended_.at(batch); }

  /// The time of one batch alone.
  double alone(instance_id id, int64_t rows = 1, double share = 0) {
    begin(0, id, rows, share);
    settle();
    return of(0).seconds;
  }

private:
  void on_loaded(instance_id, result<load_report> x) override { REQUIRE(x); }
  void on_lost(instance_id, error) override {}
  void on_executed(execution_report x) override {
    REQUIRE(x.outputs);
    ended_[x.id] = {to_seconds(x.ended - x.started), to_seconds(*x.solo)};
  }

  timestamp now_{};
  std::unique_ptr<device> device_;
  std::map<uint64_t, times> ended_;
};

contention_settings chosen_law(contention_kind x) {
  contention_settings out;
  out.model = x;
  return out;
}

} // namespace

TEST_CASE("emulated device: k batches with the power law take factor * "
          "k^exponent times as long") {
  auto law = chosen_law(contention_kind::power);
  law.factor = 0.9;
  law.exponent = 1.5;
  const double slowdowns[] = {1, 2.545584, 4.676537, 7.2}; // 0.9 k^1.5
  for (size_t k = 1; k <= 4; ++k) {
    CAPTURE(k);
    device_on_a_clock on{{profile_of("m")}, 4, law};
    on.load(1, "m");
    for (size_t i = 1; i <= k; ++i)
      on.begin(i, 1);
    on.settle();
    for (size_t i = 1; i <= k; ++i) {
      CHECK(on.of(i).seconds
            == doctest::Approx(0.010 * slowdowns[k - 1]).epsilon(1e-6));
      CHECK(on.of(i).solo == doctest::Approx(0.010).epsilon(1e-6));
    }
  }
}

TEST_CASE("emulated device: the law reads a metric at the rows of each batch") {
  auto known = profile_of("m");
  // Linear between 20 % and 60 %: 6 rows need 40 %.
  known.points[0].metrics["wsm_percent"] = 20;
  known.points[1].metrics["wsm_percent"] = 60;
  auto law = chosen_law(contention_kind::wsm);
  law.kappa = 1;
  device_on_a_clock on{{known}, 2, law};
  on.load(1, "m");
  on.begin(1, 1, 6); // 15 ms alone, slowed to 1.4 by its neighbour
  on.begin(2, 1, 6);
  on.settle();
  CHECK(on.of(1).seconds == doctest::Approx(0.015 * 1.4).epsilon(1e-6));
  CHECK(on.of(2).seconds == doctest::Approx(0.015 * 1.4).epsilon(1e-6));
}

TEST_CASE(
  "emulated device: a metric measured at one size holds for all sizes") {
  auto known = profile_of("m");
  known.points[0].metrics["bandwidth_share"] = 0.8;
  device_on_a_clock on{{known}, 2, chosen_law(contention_kind::bandwidth)};
  on.load(1, "m");
  on.begin(1, 1, 11);
  on.begin(2, 1, 11);
  on.settle();
  CHECK(on.of(1).seconds == doctest::Approx(0.020 * 1.6).epsilon(1e-6));
}

TEST_CASE("emulated device: drawn slowdowns depend on the device's seed and "
          "repeat in each run") {
  auto law = chosen_law(contention_kind::drawn);
  auto slowed = [&](uint64_t seed) {
    device_on_a_clock on{{profile_of("a"), profile_of("b")}, 2, law, seed};
    on.load(1, "a");
    on.load(2, "b");
    on.begin(1, 1);
    on.begin(2, 2);
    on.settle();
    return on.of(1).seconds;
  };
  CHECK(slowed(7) == slowed(7));
  CHECK(slowed(7) > 0.010);
  CHECK(slowed(7) != slowed(8));
}

TEST_CASE("emulated device: batches of one model slow down as measured and "
          "batches of different models by the law") {
  auto known = profile_of("a");
  auto measured = [&](double at_once, double seconds) {
    known.points.push_back(
      {"d", 1, {{"at_once", at_once}}, {{"execute_seconds", seconds}}});
  };
  measured(2, 0.013);
  measured(4, 0.025);
  auto law = chosen_law(contention_kind::linear);
  law.slowdown = 1;
  const double expected[] = {0.010, 0.013, 0.019, 0.025};
  for (size_t k = 1; k <= 4; ++k) {
    CAPTURE(k);
    device_on_a_clock on{{known}, 4, law};
    on.load(1, "a");
    on.load(2, "a"); // another replica of the model
    for (size_t i = 1; i <= k; ++i)
      on.begin(i, 1 + i % 2);
    on.settle();
    for (size_t i = 1; i <= k; ++i)
      CHECK(on.of(i).seconds == doctest::Approx(expected[k - 1]).epsilon(1e-6));
  }
  device_on_a_clock on{{known, profile_of("b")}, 4, law};
  on.load(1, "a");
  on.load(2, "b");
  on.begin(1, 1);
  on.begin(2, 2);
  on.settle();
  CHECK(on.of(1).seconds == doctest::Approx(0.020).epsilon(1e-6));
}

TEST_CASE("emulated device: a changed number of threads holds from the next "
          "batch on with the times measured for it") {
  auto known = profile_of("m");
  known.points.push_back(
    {"d", 1, {{"threads", 2}}, {{"execute_seconds", 0.006}}});
  device_on_a_clock on{{known}, 1};
  on.load(1, "m");
  CHECK(on.alone(1) == doctest::Approx(0.010).epsilon(1e-6));
  on.begin(1, 1);
  on.set_threads(1, 2);
  on.settle();
  CHECK(on.of(1).seconds == doctest::Approx(0.010).epsilon(1e-6));
  CHECK(on.alone(1) == doctest::Approx(0.006).epsilon(1e-6));
  on.set_threads(1, 3); // not measured
  CHECK(on.alone(1) == doctest::Approx(0.010).epsilon(1e-6));
  on.load(2, "m", 2);
  CHECK(on.alone(2) == doctest::Approx(0.006).epsilon(1e-6));
}

TEST_CASE("emulated device: times measured at a share and threads together "
          "precede those of either") {
  auto known = profile_of("m");
  auto measured = [&](std::map<std::string, double> where, double seconds) {
    known.points.push_back(
      {"d", 1, std::move(where), {{"execute_seconds", seconds}}});
  };
  measured({{"threads", 2}}, 0.006);
  measured({{"share", 0.5}}, 0.015);
  measured({{"share", 0.5}, {"threads", 2}}, 0.009);
  device_on_a_clock on{{known}, 1};
  on.load(1, "m", 2);
  CHECK(on.alone(1, 1, 0.5) == doctest::Approx(0.009).epsilon(1e-6));
  on.set_threads(1, 4); // not measured: the share alone counts
  CHECK(on.alone(1, 1, 0.5) == doctest::Approx(0.015).epsilon(1e-6));
  // A share that was not measured: slower by the penalty.
  CHECK(on.alone(1, 1, 0.25) == doctest::Approx(0.040).epsilon(1e-6));
  on.set_threads(1, 2);
  CHECK(on.alone(1, 1, 0.25) == doctest::Approx(0.024).epsilon(1e-6));
}
