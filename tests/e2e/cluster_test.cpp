// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <set>

#include "tests/support/canary_load.hpp"
#include "tests/support/children.hpp"
#include "tests/support/distribution.hpp"
#include "tests/support/live_cluster.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// Memory of a process mapped from a file, in total and with shared pages
/// counted in proportion (proc(5), smaps).
struct mapped_memory {
  uint64_t resident = 0;
  uint64_t proportional = 0;
};

mapped_memory memory_of(pid_t pid, const std::string& file) {
  std::ifstream in{"/proc/" + std::to_string(pid) + "/smaps"};
  mapped_memory out;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    auto key = line.substr(0, line.find(' '));
    auto number = [&] { return 1024 * std::stoull(line.substr(key.size())); };
    if (key.find('-') != std::string::npos)
      inside = line.find(file) != std::string::npos;
    else if (inside && key == "Rss:")
      out.resident += number();
    else if (inside && key == "Pss:")
      out.proportional += number();
  }
  return out;
}

/// Checks that two workers with replicas of model "ballast" share one copy of
/// its weights.
void check_one_copy(live_cluster& c) {
  constexpr size_t weights = 32u << 20;
  for (std::string worker : {"w1", "w2"}) {
    mapped_memory held;
    // Each process accounts for half of the pages that both map. If one worker
    // joined long before the other, it may have had both replicas.
    CHECK(eventually(
      [&] {
        held = {};
        for (auto process : grandchildren_of(c[worker].pid()))
          held = memory_of(process, "memfd:millrace-weights");
        return held.resident >= weights * 9 / 10
               && held.proportional <= weights * 6 / 10;
      },
      20s));
    MESSAGE(worker << ": " << format_bytes(held.resident) << " resident, "
                   << format_bytes(held.proportional) << " proportional");
  }
}

} // namespace

TEST_CASE("e2e: with every role in its own process a request is answered") {
  live_cluster c{apart(), "  - {model: affine, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  auto gateway = c.connect_client();
  REQUIRE(eventually(
    [&] {
      auto models = gateway.models();
      return models && models->size() == 1;
    },
    10s));
  auto y = gateway.infer_one(ask("affine", floats({2, 4})));
  REQUIRE(y.status == ec::ok);
  // Rows 0..3 and 4..7 times (0..3; 4..7) plus (10, 20).
  CHECK(values_of(y.outputs[0].value) == std::vector<float>{24, 58, 48, 146});
  CHECK(y.outputs[0].name == "y");
  CHECK(y.version == 1);
  SUBCASE("an invalid request is answered with the reason") {
    CHECK(gateway.infer_one(ask("affine", floats({1, 5}))).error
          == "model 'affine': expected x:F32[-1, 4], got F32[1, 5]");
    CHECK(gateway.infer_one(ask("nothing", floats({1, 4}))).status
          == ec::unknown_model);
    CHECK(gateway.infer_one(ask("affine", floats({1, 4})), 0us).status
          == ec::deadline_exceeded);
  }
}

TEST_CASE("P1, P2, P3: every request gets exactly its own answer through 20"
          " kills of a worker under load") {
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "identity", 32};
  load.start();
  ::usleep(500'000);
  std::vector<timestamp> killed;
  const int kills = 20 * times();
  for (int i = 0; i < kills; ++i) {
    auto victim = i % 2 == 0 ? "w1" : "w2";
    killed.push_back(steady_now());
    c[victim].end(SIGKILL);
    ::usleep(300'000);
    c.start(victim);
    // The next kill requires a replica on the other node.
    auto ready = [](const node_status& s) {
      return std::any_of(s.replicas.begin(), s.replicas.end(), [](auto& r) {
        return r.state == replica_condition::ready;
      });
    };
    REQUIRE((c.wait_status("w1", ready) && c.wait_status("w2", ready)));
  }
  load.stop();
  load.finish();
  report(load);
  auto waits = load.waits_from(killed);
  MESSAGE("longest wait around " << kills << " kills: " << distribution(waits));
  CHECK(load.submitted > 1000);
  CHECK(load.answered == load.submitted);
  CHECK(load.surprises == 0);
  CHECK(load.foreign == 0);
  CHECK(load.statuses[ec::ok] == load.submitted);
  // P3 requires 250 ms. On two cores beside other tests the limit is 1 s, the
  // timeout of a silent node.
  CHECK(most_of(waits) < 1s);
}

TEST_CASE("P1: each request in a shared frame gets its own answer") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n",
                 bundles};
  auto gateway = c.start_and_meet();
  std::map<uint64_t, float> open;
  size_t unknown = 0;
  {
    client::group together{gateway};
    for (int i = 0; i < 300; ++i) {
      // Every fifth request is too large to share a frame. Some requests name
      // no model.
      auto first = static_cast<float>(100 * i);
      auto x = ask(i % 7 == 0 ? "nothing" : "identity",
                   floats({i % 5 == 0 ? 2000 : 1, 4}, first));
      auto id = gateway.submit(x);
      if (i % 7 == 0)
        ++unknown;
      else
        open.emplace(id, first);
    }
  }
  for (int i = 0; i < 300; ++i) {
    auto x = gateway.receive(5s);
    REQUIRE(x);
    if (x->reply.status == ec::unknown_model) {
      --unknown;
      continue;
    }
    REQUIRE(x->reply.status == ec::ok);
    CHECK(values_of(x->reply.outputs[0].value)[0] == open.at(x->id));
    open.erase(x->id);
  }
  CHECK(open.empty());
  CHECK(unknown == 0);
  CHECK_FALSE(gateway.receive(100ms));
}

TEST_CASE("P5: no warm request fails without the controller and registered"
          " models are present after its restart") {
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  set_model registered_live;
  registered_live.settings.model = "affine";
  REQUIRE(c.connect_operator("ctl").ask<ack>("ctl/registry", registered_live));
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "identity", 8};
  c["ctl"].end(SIGKILL);
  load.run(20s * std::min(3, times()));
  c.start("ctl");
  load.run(5s);
  load.finish();
  report(load);
  CHECK(load.statuses[ec::ok] == load.submitted);
  REQUIRE(c.wait_ready());
  auto list =
    c.connect_operator("ctl").ask<model_list>("ctl/registry", get_models{});
  REQUIRE(list);
  REQUIRE(list->models.size() == 2);
  CHECK(list->models[0].settings.model == "affine");
  CHECK(list->models[0].ready == 1);
  CHECK(list->models[1].ready == 2);
  // The replicas were adopted and not started twice.
  CHECK(c.log_of("ctl").find("placement.evict") == std::string::npos);
}

TEST_CASE("P5: a restarted or resumed controller learns the running replicas at"
          " once and changes none") {
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  canary_load load{c.start_and_meet(), "identity", 8};
  load.start();
  std::vector<microseconds> rebuilt;
  const int kills = 5 * times();
  for (int i = 0; i < kills; ++i) {
    c["ctl"].end(SIGKILL);
    ::usleep(500'000); // until all nodes have given it up
    auto begin = steady_now();
    c.start("ctl");
    REQUIRE(c.wait_ready());
    rebuilt.push_back(to_us(steady_now() - begin));
  }
  c["ctl"].signal(SIGSTOP);
  ::usleep(3'000'000);
  c["ctl"].signal(SIGCONT);
  CHECK(c.wait_ready());
  load.stop();
  load.finish();
  report(load);
  MESSAGE("from its start until it knows all, after "
          << kills << " kills: " << distribution(rebuilt));
  INFO(c.log_of("ctl"));
  CHECK(load.submitted > 1000);
  CHECK(load.statuses[ec::ok] == load.submitted);
  CHECK(median_of(rebuilt) < 2s); // a busy disk may delay one restart
  CHECK(c.logged("ctl", "placement.evict") == 0);
  CHECK(c.logged("ctl", "placement.deploy") == 2);
}

TEST_CASE("P19: jumps of the clock of a host lose no deadline and no node") {
  temporary_directory folder;
  auto clock = folder / "clock";
  auto set = [&](const std::string& to) {
    REQUIRE(write_file(clock, std::as_bytes(std::span{to})));
  };
  set("+0");
  ::setenv("LD_PRELOAD", FAKETIME, 1);
  ::setenv("FAKETIME_TIMESTAMP_FILE", clock.c_str(), 1);
  ::setenv("FAKETIME_NO_CACHE", "1", 1);
  ::setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
  live_cluster c{apart(), "  - {model: identity, replicas: 2}\n", bundles};
  c.start_all();
  ::unsetenv("LD_PRELOAD");
  REQUIRE(c.wait_ready());
  canary_load load{c.connect_client(), "identity", 8};
  auto operators = c.connect_operator("ctl");
  for (std::string jump : {"+1h", "-1h", "-10y", "+10y", "+0"}) {
    set(jump);
    set_model x; // a change to distribute
    x.settings.model = "affine";
    x.settings.replicas = jump == "+10y" ? 1 : 0;
    CHECK(operators.ask<ack>("ctl/registry", x));
    load.run(700ms);
  }
  load.finish();
  report(load);
  CHECK(load.submitted > 500);
  CHECK(load.statuses[ec::ok] == load.submitted);
  // The dates in the log show that the jumps took effect.
  CHECK(c.log_of("ctl").find("2036-") != std::string::npos);
  for (auto node : {"ctl", "gw"})
    CHECK(c.log_of(node).find("peer_down") == std::string::npos);
}

TEST_CASE("I6: the end of a connection counts as a disconnect of its client") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    devices:\n"
                          "      - type: emulated\n"
                          "        emulate: {load: 10ms, per_batch: 500ms}\n"}},
                 "  - {model: identity, policy: {batch: 1}}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  auto other = c.connect_client();
  {
    auto leaving = c.connect_client();
    for (int i = 0; i < 100; ++i)
      leaving.submit(ask("identity", floats({1, 4})), 60s);
    ::usleep(200'000);
  }
  // Each request takes 500 ms, so the cancelled requests would have taken 50 s.
  CHECK(other.infer_one(ask("identity", floats({1, 4})), 10s).status == ec::ok);
}

TEST_CASE("I6: a client that returns under the name of another client gets none"
          " of its answers") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: identity}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  zmq::context_t context{1};
  for (uint64_t i = 1; i <= 50; ++i) {
    auto socket = zeromq::make_dealer(context, "same", {});
    REQUIRE(zeromq::connect(socket, c.endpoint("all", "clients")));
    frame_writer out;
    header head;
    head.id = i;
    head.left = {steady_now() + 10s};
    out.add(head, ask("identity", floats({1, 4})), steady_now());
    auto request = out.take();
    // The node refuses a name until the previous connection with that name has
    // ended.
    zeromq::frame_list frames;
    REQUIRE(eventually([&] { return zeromq::send(socket, {}, request); }, 5s));
    auto begin = steady_now();
    while (!zeromq::receive(socket, frames) && steady_now() - begin < 300ms)
      ::usleep(100);
    if (frames.empty())
      continue; // refused
    frame_reader in{zeromq::view(frames[0]), {}, steady_now()};
    infer_reply reply;
    REQUIRE((in.next() && in.read(reply)));
    CHECK(in.head().id == i);
    CHECK(reply.status == ec::ok);
  }
}

TEST_CASE("P4: a model that runs longer than the heartbeat timeout does not"
          " make its node lost") {
  live_cluster c{apart(), "  - {model: lasting}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  auto gateway = c.connect_client();
  microseconds longest{0};
  for (float times = 64; longest < 1500ms && times < 1e6; times *= 2) {
    auto y = gateway.infer_one(ask("lasting", floats({1, 4}, times)), 60s);
    REQUIRE(y.status == ec::ok);
    longest = y.execute;
  }
  CHECK(longest >= 1500ms);
  for (auto node : {"ctl", "gw"})
    CHECK(c.log_of(node).find("peer_down") == std::string::npos);
}

TEST_CASE("e2e: a bad request does not fail the other requests of its batch") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: picky, policy: {batch_delay: 50ms}}\n",
                 bundles};
  auto gateway = c.start_and_meet();
  auto good = gateway.submit(ask("picky", floats({1, 4}, 1)));
  auto bad = gateway.submit(ask("picky", floats({1, 4}, 1000)));
  std::map<uint64_t, infer_reply> replies;
  while (replies.size() < 2) {
    auto x = gateway.receive(5s);
    REQUIRE(x);
    replies[x->id] = x->reply;
  }
  CHECK(replies[good].status == ec::ok);
  CHECK(values_of(replies[good].outputs[0].value)
        == std::vector<float>{2, 4, 6, 8});
  CHECK(replies[bad].status == ec::internal);
  CHECK(replies[bad].error.find("a number above 100") != std::string::npos);
}

TEST_CASE("QU-41: replicas on all devices of a host share one physical copy of"
          " their weights") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    devices: [{type: cpu}, {type: cpu}]\n"}},
                 "  - {model: affine, replicas: 2, trusted: true}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  size_t mappings = 0;
  c.wait_status("all",
                [&](const node_status& s) { return s.replicas.size() == 2; });
  auto maps =
    read_file("/proc/" + std::to_string(c["all"].pid()) + "/maps", 16u << 20);
  REQUIRE(maps);
  constexpr auto name = "memfd:millrace-weights";
  for (size_t at = 0; (at = maps->find(name, at)) != std::string::npos; ++at)
    ++mappings;
  CHECK(mappings == 1);
}

TEST_CASE("FP-53: one process per host serves all models on its devices") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"
                          "    devices: [{type: cpu}, {type: cpu}]\n"}},
                 "  - {model: affine, replicas: 2, trusted: true}\n"
                 "  - {model: identity, replicas: 2, trusted: true}\n"
                 "  - {model: picky, replicas: 2, trusted: true}\n",
                 bundles};
  auto gateway = c.start_and_meet(3);
  REQUIRE(c.wait_ready());
  for (std::string model : {"affine", "identity", "picky"})
    CHECK(gateway.infer_one(ask(model, floats({1, 4}, 1))).status == ec::ok);
  CHECK(grandchildren_of(c["all"].pid()).empty());
}

TEST_CASE("e2e: processes of one host share one physical copy of the weights") {
  live_cluster c{apart(), "  - {model: ballast, replicas: 2}\n", bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  check_one_copy(c);
}

TEST_CASE("QU-41: workers of one host that fetch a model from another host"
          " share one physical copy") {
  temporary_directory nothing;
  auto nodes = apart();
  nodes["far"] = "    roles: [worker]\n    host: far\n"
                 "    devices: [{type: emulated, kind: other}]\n";
  for (std::string worker : {"w1", "w2"})
    nodes[worker] += "    models: " + nothing.path() + "\n";
  live_cluster c{nodes, "  - {model: ballast, replicas: 2, device: cpu}\n",
                 bundles, "bulk: {rate: 100MB/s}\n"};
  c.start_all();
  REQUIRE(c.wait_ready());
  check_one_copy(c);
}

TEST_CASE("e2e: a second process with the same data directory is refused") {
  live_cluster c{{{"all", "    roles: [gateway, controller, worker]\n"}},
                 "  - {model: affine}\n",
                 bundles};
  c.start_all();
  REQUIRE(c.wait_ready());
  process second{{MILLRACE_PROGRAM, "node", "--config", c.config()},
                 c.folder() + "/second.log"};
  CHECK(second.wait() == 78);
  CHECK(read_file(c.folder() + "/second.log", 1 << 20)
          ->find("another process uses it as its data directory")
        != std::string::npos);
}
