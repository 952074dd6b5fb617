// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <caf/exit_reason.hpp>
#include <caf/scoped_actor.hpp>

#include "actors/monitor/monitor_state.hpp"
#include "actors/monitor/usage.hpp"
#include "runtime/actor.hpp"
#include "tests/support/eventually.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE(
  "monitor: the usage of a device is the busy part of its lanes' time") {
  device_load before{"d", 2, 1s, 10, 0, 0, 0};
  device_load after{"d", 2, 2s, 30, 1, 3, 64};
  auto x = usage_between(before, after, 2s);
  CHECK(x.busy == doctest::Approx(0.25));
  CHECK(x.batches_per_second == doctest::Approx(10));
  CHECK(x.running == 1);
  CHECK(x.waiting == 3);
  CHECK(x.memory == 64);
}

TEST_CASE("monitor: a batch longer than the period counts as fully busy") {
  auto x =
    usage_between({"d", 1, 0s, 0, 0, 0, 0}, {"d", 1, 5s, 1, 0, 0, 0}, 1s);
  CHECK(x.busy == 1);
}

TEST_CASE("monitor: a batch that does not end counts as busy") {
  auto x =
    usage_between({"d", 2, 1s, 7, 1, 0, 0}, {"d", 2, 1s, 7, 1, 0, 0}, 1s);
  CHECK(x.busy == doctest::Approx(0.5));
}

TEST_CASE("monitor: counts that fell are taken from zero") {
  auto x =
    usage_between({"d", 1, 9s, 90, 0, 0, 0}, {"d", 1, 500ms, 5, 0, 0, 0}, 1s);
  CHECK(x.busy == doctest::Approx(0.5));
  CHECK(x.batches_per_second == doctest::Approx(5));
}

TEST_CASE("monitor: the usage of a replica has its mean batch size") {
  auto x = usage_between({"r", 0s, 0, 0, 0}, {"r", 500ms, 10, 80, 1}, 1s);
  CHECK(x.requests_per_second == doctest::Approx(80));
  CHECK(x.batch == doctest::Approx(8));
  CHECK(x.busy == doctest::Approx(0.5));
  CHECK(usage_between({"r", 0s, 0, 0, 0}, {"r", 0s, 0, 0, 0}, 1s).batch == 0);
}

TEST_CASE("monitor: a period of zero has no usage") {
  auto x =
    usage_between({"d", 1, 0s, 0, 0, 0, 0}, {"d", 1, 1s, 1, 0, 0, 0}, 0s);
  CHECK(x.busy == 0);
  CHECK(x.batches_per_second == 0);
}

TEST_CASE("QU-06: arrivals and waits and service times of a window follow from "
          "the counts at its ends") {
  replica_load before, after;
  before.gaps.add(7s); // from an earlier window
  before.waits.add(7s);
  before.runs.add(7s);
  after = before;
  for (int i = 0; i < 50; ++i) {
    after.gaps.add(i % 2 == 0 ? 5ms : 15ms);
    after.waits.add(2ms);
    after.runs.add(i % 2 == 0 ? 4ms : 12ms);
  }
  auto x = usage_between(before, after, 500ms);
  CHECK(x.arrivals == doctest::Approx(100));
  CHECK(x.arrival_cv == doctest::Approx(0.5));
  CHECK(x.waited == doctest::Approx(0.002));
  CHECK(x.queue == doctest::Approx(0.2)); // 100 a second, 2 ms each
  CHECK(x.served == doctest::Approx(0.008));
  CHECK(x.service_cv == doctest::Approx(0.5));
  CHECK(usage_between(after, after, 1s).arrival_cv == 0); // no request arrived
}

TEST_CASE("monitor: driver readings of a GPU are part of its device's usage") {
  device_usage x;
  add_gpu_usage(x, {"NVIDIA H200",
                    .87,
                    .2,
                    {141u << 20},
                    {12u << 20},
                    1500,
                    1980,
                    410.5,
                    700});
  CHECK(x.gpu_busy == .87);
  CHECK(x.gpu_memory == 12u << 20);
  CHECK(x.gpu_clock == 1500);
  CHECK(x.gpu_watts == 410.5);
}

TEST_CASE("monitor: cores and memory of confined processes are counted beside "
          "those of the node") {
  caf::actor_system_config config;
  add_error_category(config);
  caf::actor_system system{config};
  auto counts = std::make_shared<metrics>();
  monitor_probes probes;
  probes.host = [] {
    host_reading out;
    out.process_seconds = 3;
    out.resident = 100;
    return out;
  };
  // In the second reading a process has ended and its count is missing.
  probes.children = [n = 0]() mutable {
    return n++ == 0 ? children_reading{7, 4000} : children_reading{6, 3000};
  };
  auto x = system.spawn(monitor, probes, counts, microseconds{10ms});
  auto shows = [&](const std::string& line) {
    return eventually(
      [&] {
        return counts->text().find("\n" + line + "\n") != std::string::npos;
      },
      10s);
  };
  CHECK(
    shows(R"(millrace_process_resident_memory_bytes{part="confined"} 3000)"));
  CHECK(shows(R"(millrace_process_resident_memory_bytes{part="node"} 100)"));
  CHECK(shows(R"(millrace_process_cpu_seconds_total{part="confined"} 7)"));
  CHECK(shows(R"(millrace_process_cpu_seconds_total{part="node"} 3)"));
  caf::anon_send_exit(x, caf::exit_reason::user_shutdown);
}

TEST_CASE("host_probe: grandchildren and ended children are counted") {
  auto before = read_children();
  auto compute = [] {
    auto until = std::clock() + CLOCKS_PER_SEC / 10;
    while (std::clock() < until)
      ;
  };
  int line[2];
  REQUIRE(::pipe(line) == 0);
  auto child = ::fork();
  if (child == 0) {
    auto below = ::fork();
    compute();
    if (below == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::write(line[1], "x", 1);
      ::pause();
    }
    ::write(line[1], "x", 1);
    ::pause();
  }
  char done[1];
  for (int i = 0; i < 2; ++i)
    REQUIRE(::read(line[0], done, 1) == 1);
  auto there = read_children();
  CHECK(there.seconds - before.seconds > 0.15);
  CHECK(there.resident > before.resident + (100 << 10));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(read_children().seconds - before.seconds > 0.08);
}

TEST_CASE("P17: a GPU driver that hangs does not delay the monitor's answers") {
  std::mutex mutex;
  std::vector<std::function<void(gpu_readings)>> asked;
  auto times = [&] {
    std::lock_guard guard{mutex};
    return asked.size();
  };
  caf::actor_system_config config;
  add_error_category(config);
  caf::actor_system system{config};
  monitor_probes probes;
  probes.host = [] { return host_reading{}; };
  probes.gpus = [&](auto tell) {
    std::lock_guard guard{mutex};
    asked.push_back(std::move(tell));
  };
  probes.gpu_of = {{"gpu0", 0}};
  auto watching = system.spawn(monitor, probes,
                               std::make_shared<metrics>(recording::off), 1ms);
  auto answers = [&] {
    auto out = false;
    caf::scoped_actor self{system};
    self->request(watching, caf::timespan{10s}, get_load{})
      .receive([&](const node_load&) { out = true; }, [](const caf::error&) {});
    return out;
  };
  REQUIRE(eventually([&] { return times() == 1; }, 10s));
  for (int i = 0; i < 20; ++i)
    CHECK(answers());
  CHECK(times() == 1); // no second call while the first hangs
  asked[0](error{ec::unavailable, "no GPU any more"});
  CHECK(eventually([&] { return times() == 2; }, 10s));
  caf::anon_send_exit(watching, caf::exit_reason::user_shutdown);
  system.await_all_actors_done();
  asked.clear(); // the callbacks refer to the actor
}

TEST_CASE("monitor: the usage of a host is the busy time of all its cores") {
  node_load out;
  add_host_usage(out, {10, 40, 5, 0, 0, 0}, {11, 44, 7, 100, 200, 300}, 2s);
  CHECK(out.host_busy == doctest::Approx(0.25));
  CHECK(out.process_cpus == doctest::Approx(1));
  CHECK(out.resident == 100);
  CHECK(out.available == 200);
  CHECK(out.copied == 300);
}

TEST_CASE(
  "host_probe: the memory of a container is the rest of its tightest group") {
  temporary_directory root;
  auto write = [&](const std::string& file, const std::string& text) {
    auto path = std::filesystem::path{root / file};
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  };
  auto limited = [&] {
    host_reading x;
    x.memory = 1000;
    x.available = 600;
    limit_to_group(x, root / "self", root / "groups");
    return std::pair{x.memory, x.available};
  };
  using memory = std::pair<uint64_t, uint64_t>;
  CHECK(limited() == memory{1000, 600}); // the system has no groups
  write("self/cgroup", "4:memory:/old\n0::/pod/one\n");
  write("groups/pod/one/memory.max", "max\n");
  CHECK(limited() == memory{1000, 600});
  write("groups/pod/memory.max", "500\n");
  write("groups/pod/memory.current", "300\n");
  CHECK(limited() == memory{500, 200});
  write("groups/pod/memory.stat", "anon 100\ninactive_file 150\n");
  CHECK(limited() == memory{500, 350});
  write("groups/pod/one/memory.max", "100\n");
  write("groups/pod/one/memory.current", "120\n");
  CHECK(limited() == memory{100, 0});
}

TEST_CASE("host_probe: this process has memory and used processor time") {
  auto x = read_host();
  CHECK(x.resident > 1 << 20);
  CHECK(x.available > 1 << 20);
  CHECK(x.total_seconds >= x.busy_seconds);
  CHECK(x.busy_seconds > 0);
}
