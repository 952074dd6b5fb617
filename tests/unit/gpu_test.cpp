// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "models/device/emulated_device.hpp"
#include "models/gpu/kernel_profile.hpp"
#include "models/gpu/nvml.hpp"
#include "tests/support/builders.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A V100 as in the digest of the interference framework (4.3).
gpu_info v100() {
  gpu_info out;
  out.multiprocessors = 80;
  out.threads = 2048;
  out.blocks = 32;
  out.registers = 65536;
  out.shared_memory = {96 << 10};
  return out;
}

kernel_run kernel(double start, double end, uint32_t blocks, uint32_t threads,
                  uint32_t registers = 0, uint64_t shared = 0) {
  kernel_run out;
  out.start = start;
  out.end = end;
  out.grid = {blocks, 1, 1};
  out.block = {threads, 1, 1};
  out.registers = registers;
  out.shared_memory = {shared};
  return out;
}

/// Stores the duration of a batch.
class noting_listener : public device_listener {
public:
  void on_loaded(instance_id, result<load_report> x) override { REQUIRE(x); }
  void on_lost(instance_id, error) override {}
  void on_executed(execution_report x) override {
    REQUIRE(x.outputs);
    seconds = to_seconds(x.ended - x.started);
  }
  double seconds = 0;
};

/// The time of one batch on an emulated device, on a clock that the test moves.
double emulated_seconds(const std::shared_ptr<const profile_book>& book,
                        const std::string& kind, const std::string& model,
                        double rows, double share) {
  noting_listener heard;
  emulated_environment environment;
  environment.profiles = book;
  auto x = make_emulated_device({"emu0", kind, 1, {}}, emulation{}, heard,
                                environment);
  timestamp now{};
  auto settle = [&] {
    while (x->next_due() != far_future) {
      now = x->next_due();
      x->advance(now);
    }
  };
  load_request what;
  what.instance = 1;
  what.content = make_bundle(model);
  what.last_layer = 1;
  x->load(std::move(what), now);
  settle();
  execution batch;
  batch.instance = 1;
  batch.share = share;
  batch.items = {{floats({static_cast<int64_t>(rows), 4})}};
  x->execute(std::move(batch), now);
  settle();
  return heard.seconds;
}

} // namespace

TEST_CASE("IF-47, emulation: batches take the times measured on a real GPU at "
          "their size and share") {
  auto read = read_profiles(MILLRACE_SOURCE "/models/profiles/h200.yaml");
  REQUIRE(read);
  auto book = std::make_shared<const profile_book>(*read);
  size_t with_share = 0;
  for (auto& model : *read)
    for (auto& p : model.points) {
      if (p.dimensions.contains("mps"))
        continue; // an emulated device has no model of how a share is enforced
      auto share = p.dimensions.find("share");
      auto is_shared = share != p.dimensions.end();
      with_share += is_shared;
      CAPTURE(model.model);
      CAPTURE(p.batch);
      CHECK(emulated_seconds(book, "h200", model.model, p.batch,
                             is_shared ? share->second : 0)
            == doctest::Approx(p.metrics.at("execute_seconds")).epsilon(1e-6));
    }
  CHECK(with_share == 6);
}

TEST_CASE("emulation: a share that was not measured is slower by the penalty") {
  auto read = read_profiles(MILLRACE_SOURCE "/models/profiles/h200.yaml");
  REQUIRE(read);
  auto book = std::make_shared<const profile_book>(*read);
  auto whole = emulated_seconds(book, "h200", "resnet18", 8, 0);
  CHECK(emulated_seconds(book, "h200", "resnet18", 8, .1)
        == doctest::Approx(10 * whole).epsilon(1e-6));
}

TEST_CASE("nvml: visible GPUs are numbered as in CUDA") {
  std::vector<std::string> all{"GPU-a1", "GPU-a2", "GPU-b"};
  using numbers = std::vector<size_t>;
  CHECK(visible_gpus("2,0", all) == numbers{2, 0});
  CHECK(visible_gpus("GPU-b,GPU-a2", all) == numbers{2, 1});
  CHECK(visible_gpus("1,GPU-b", all) == numbers{1, 2});
  // An invalid entry ends the list: an unknown number, an ambiguous prefix, a
  // part of a GPU.
  for (auto none : {"", "-1", "3", "one", "GPU-a", "GPU-c", "MIG-a1", " 1"})
    CHECK(visible_gpus(none, all).empty());
  CHECK(visible_gpus("0,3,1", all) == numbers{0});
}

TEST_CASE("nvml: without a GPU the error names the missing library") {
  auto x = read_gpus();
  if (x) { // this host has a GPU
    CHECK(x->front().memory.value > 0);
    return;
  }
  CHECK(x.failure().code == ec::unavailable);
  CHECK(x.failure().text.find("libnvidia-ml.so.1") != std::string::npos);
}

TEST_CASE(
  "IF-49: the multiprocessors of a kernel follow from its tightest limit") {
  auto gpu = v100();
  CHECK(sm_utilisation(kernel(0, 1, 80, 1024), gpu) == 50);     // threads: 2
  CHECK(sm_utilisation(kernel(0, 1, 81, 1024), gpu) == 51.25);  // 41 of 80
  CHECK(sm_utilisation(kernel(0, 1, 320, 32), gpu) == 12.5);    // blocks: 32
  CHECK(sm_utilisation(kernel(0, 1, 80, 256, 128), gpu) == 50); // registers: 2
  CHECK(sm_utilisation(kernel(0, 1, 40, 64, 32, 48 << 10), gpu) == 25);
}

TEST_CASE(
  "IF-49: several waves count as 100 % and zero shared memory is no limit") {
  auto gpu = v100();
  CHECK(sm_utilisation(kernel(0, 1, 100'000, 1024), gpu) == 100);
  CHECK(sm_utilisation(kernel(0, 1, 1, 64, 32, 0), gpu) == 1.25);
}

TEST_CASE("IF-49: grids of several dimensions count all their blocks") {
  auto x = kernel(0, 1, 4, 16);
  x.grid = {4, 5, 8};
  x.block = {16, 8, 8}; // 1024 threads: two blocks per multiprocessor
  CHECK(sm_utilisation(x, v100()) == 100);
}

TEST_CASE("IF-48: overlapping kernels add up and gaps count as zero") {
  auto gpu = v100();
  // 0 to 2: half of the GPU; 1 to 3: a quarter; 3 to 9: idle; 9 to 10: the
  // whole GPU.
  std::vector<kernel_run> xs{kernel(0, 2, 80, 1024), kernel(1, 3, 40, 1024),
                             kernel(9, 10, 10'000, 1024)};
  auto wsm = heights_of(xs, [&](auto& x) { return sm_utilisation(x, gpu); });
  CHECK(wsm.highest == 100);
  CHECK(wsm.weighted == doctest::Approx((50 + 75 + 25 + 100) / 10.));
}

TEST_CASE(
  "IF-48: AO is the highest sum of occupancies and WAO their mean over time") {
  std::vector<kernel_run> xs{kernel(0, 4, 1, 1), kernel(1, 2, 1, 1),
                             kernel(6, 8, 1, 1)};
  std::map<double, double> occupancy{{0, 40}, {1, 30}, {6, 20}}; // by start
  auto out = heights_of(xs, [&](auto& x) { return occupancy.at(x.start); });
  CHECK(out.highest == 70);
  CHECK(out.weighted == doctest::Approx((4 * 40 + 30 + 2 * 20) / 8.));
}

TEST_CASE("IF-48: heights are limited to 100 % and zero without kernels") {
  std::vector<kernel_run> xs{kernel(0, 1, 1, 1), kernel(0, 1, 1, 1)};
  auto high = [](auto&) { return 80.; };
  CHECK(heights_of(xs, high).highest == 100);
  CHECK(heights_of(xs, high, 1000).highest == 160);
  CHECK(heights_of({}, high).weighted == 0);
}

TEST_CASE("occupancy: the occupancy of a launch is bounded by its resident "
          "blocks and its grid") {
  auto gpu = v100();
  auto x = kernel(0, 1, 80, 512);
  x.resident = 4;
  CHECK(launch_occupancy(x, gpu) == 25); // 512 threads of 2048
  x.grid = {100'000, 1, 1};
  CHECK(launch_occupancy(x, gpu) == 100);
  x.resident = 1;
  CHECK(launch_occupancy(x, gpu) == 25);
  x.resident = 0; // unknown
  CHECK(launch_occupancy(x, gpu) == 0);
}
