// SPDX-License-Identifier: Apache-2.0
#include "tests/support/runs.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

using namespace millrace::simulator;

/// Two workers with one replica each, or one replica on the first worker. 100
/// requests per second for `length`.
std::string two_workers(const std::string& faults, int replicas = 2,
                        const std::string& length = "20s") {
  return "length: " + length
         + "\n"
           "warm_up: 5s\n"
           "hosts:\n"
           "  - {name: front, roles: [gateway, controller]}\n"
           "  - {name: w, count: 2, roles: [worker], devices: [{kind: d}]}\n"
           "bundles:\n"
           "  m: {input: 1kB, execute: {d: {1: 4ms, 8: 10ms}}, load: {d:"
           " 100ms}}\n"
           "models: [{model: m, replicas: "
         + std::to_string(replicas)
         + ", policy: {batch: 8}}]\n"
           "workload: [{model: m, rate: 100, deadline: 500ms}]\n"
           "faults: ["
         + faults + "]\n";
}

/// Number of answers with a status, for requests sent between two times.
size_t answers(const record& run, ec status, microseconds from,
               microseconds to) {
  size_t n = 0;
  for (auto& x : run.requests)
    n += x.status == status && x.sent >= from && x.sent < to;
  return n;
}

double share_ok(const record& run, microseconds from, microseconds to) {
  size_t n = 0;
  for (auto& x : run.requests)
    n += x.sent >= from && x.sent < to;
  return static_cast<double>(answers(run, ec::ok, from, to))
         / static_cast<double>(n);
}

double slowest(const record& run, microseconds from, microseconds to) {
  double out = 0;
  for (auto& x : run.requests)
    if (x.sent >= from && x.sent < to && x.status == ec::ok)
      out = std::max(out, to_seconds(x.ended - x.sent));
  return out;
}

size_t events(const record& run, const std::string& begin) {
  size_t n = 0;
  for (auto& x : run.events)
    n += x.what.starts_with(begin);
  return n;
}

record with(const std::string& faults, int replicas = 2,
            const std::string& length = "20s") {
  return run_of(scenario_of(two_workers(faults, replicas, length)));
}

} // namespace

TEST_CASE("fault: a run without faults answers every request") {
  auto run = with("");
  CHECK(run.requests.size() > 1800);
  CHECK(share_ok(run, 0s, 20s) == 1);
}

TEST_CASE("fault kill: requests of a killed node are run on another node and"
          " its replicas start again") {
  auto run = with("{kind: kill, nodes: [w-1], at: 5s, lasts: 2s}");
  CHECK(share_ok(run, 0s, 20s) == 1);
  CHECK(events(run, "router.replica_lost") >= 1);
  CHECK(events(run, "simulator.started node=w-1") == 2);
  // The broken connection is detected long before a missing heartbeat.
  CHECK(slowest(run, 4900ms, 5100ms) < 0.1);
}

TEST_CASE("P4: fault hang: a silent node is given up and its requests are run"
          " on another node") {
  auto run = with("{kind: hang, nodes: [w-1], at: 5s, lasts: 3s}");
  CHECK(events(run, "bus.peer_down node=front peer=w-1 reason=silent") == 1);
  // Requests at the hung worker wait until its 1 s timeout; some are late.
  CHECK(share_ok(run, 4900ms, 6100ms) > 0.4);
  CHECK(share_ok(run, 6200ms, 20s) == 1);
}

TEST_CASE("P5: a controller that was paused or cut off starts no replica"
          " twice") {
  for (std::string kind : {"hang", "partition"})
    for (std::string lasts : {"450ms", "3s"}) {
      CAPTURE(kind);
      CAPTURE(lasts);
      // The second worker reports later than the first.
      auto run =
        with("{kind: " + kind + ", nodes: [front], at: 5s, lasts: " + lasts
             + "}, {kind: delay, nodes: [w-2], at: 4s, lasts: 6s,"
               " by: 200ms}");
      CHECK(run.replicas.size() == 2);
      CHECK(share_ok(run, 10s, 20s) == 1);
    }
}

TEST_CASE("P5: a new controller of 100 nodes learns all replicas within 2 s and"
          " starts none twice") {
  auto run = run_of(scenario_of(
    "length: 20s\n"
    "warm_up: 10s\n"
    "hosts:\n"
    "  - {name: front, roles: [gateway]}\n"
    "  - {name: ctl, roles: [controller]}\n"
    "  - {name: w, count: 98, roles: [worker], devices: [{kind: d}]}\n"
    "bundles:\n"
    "  m: {input: 1kB, execute: {d: {1: 4ms, 8: 10ms}}, load: {d: 100ms}}\n"
    "models: [{model: m, replicas: 97, policy: {batch: 8}}]\n"
    "workload: [{model: m, rate: 500, deadline: 500ms}]\n"
    "faults:\n"
    "  - {kind: kill, nodes: [ctl], at: 5s, lasts: 5s}\n"
    // By then the controller must have the replicas of all nodes.
    "  - {kind: kill, nodes: [w-1], at: 12s, lasts: 8s}\n"));
  CHECK(share_ok(run, 0s, 20s) == 1);
  CHECK(run.replicas.size() == 98);
  CHECK(events(run, "placement.deploy") == 98);
  CHECK(events(run, "placement.evict") == 0);
  microseconds last{0};
  for (auto& x : run.events)
    if (x.what.starts_with("placement.deploy"))
      last = x.at;
  CHECK(last >= 12s);
  CHECK(last < 13s);
}

TEST_CASE("fault hang: a hang shorter than the heartbeat timeout loses no"
          " request") {
  auto run = with("{kind: hang, nodes: [w-1], at: 5s, lasts: 200ms}");
  CHECK(events(run, "bus.peer_down") == 0);
  CHECK(share_ok(run, 0s, 20s) == 1);
}

TEST_CASE("fault slow: devices are slower for the duration of the fault") {
  auto run =
    with("{kind: slow, nodes: [w-1, w-2], at: 5s, lasts: 5s, factor: 10}");
  CHECK(slowest(run, 1s, 4s) < 0.03);
  CHECK(slowest(run, 5s, 10s) > 0.05);
  CHECK(slowest(run, 11s, 20s) < 0.03);
}

TEST_CASE("fault partition: a node that is cut off is given up and joins again"
          " afterwards") {
  auto run = with("{kind: partition, nodes: [w-1], at: 5s, lasts: 5s}");
  CHECK(events(run, "bus.peer_down node=front peer=w-1") == 1);
  CHECK(events(run, "bus.peer_down node=w-1 peer=front") == 1);
  CHECK(share_ok(run, 6500ms, 20s) == 1);
  CHECK(events(run, "router.replica_ready") >= 3);
}

TEST_CASE("fault partition: messages in transit stop and continue after the"
          " partition") {
  // 50 MB take 40 ms from client to gateway and 40 ms from gateway to worker.
  // The cut falls into the second transfer.
  auto took = [](const std::string& faults) {
    auto text = two_workers(faults);
    text.replace(text.find("input: 1kB"), 10, "input: 50MB");
    text.replace(text.find("rate: 100, deadline: 500ms"), 26,
                 "arrivals: constant, rate: 0.1, deadline: 5s");
    auto run = run_of(scenario_of(text));
    REQUIRE(run.requests.size() == 1);
    CHECK(run.requests[0].status == ec::ok);
    return run.requests[0].ended - run.requests[0].sent;
  };
  auto whole = took("");
  auto cut =
    took("{kind: partition, nodes: [w-1, w-2], at: 10050ms, lasts: 300ms}");
  CHECK(whole > 80ms);
  CHECK(cut - whole > 290ms);
  CHECK(cut - whole < 310ms);
}

TEST_CASE("fault one_way: a node that is cut off in one direction is given"
          " up") {
  auto run = with("{kind: one_way, nodes: [w-1], at: 5s, lasts: 5s}");
  CHECK(events(run, "bus.peer_down node=front peer=w-1") == 1);
  CHECK(share_ok(run, 6500ms, 20s) == 1);
}

TEST_CASE("fault loss: lost packets delay answers and lose none") {
  auto run =
    with("{kind: loss, nodes: [w-1, w-2], at: 5s, lasts: 5s, part: 0.01}");
  CHECK(slowest(run, 5s, 10s) > 0.19);
  CHECK(share_ok(run, 0s, 20s) > 0.99);
}

TEST_CASE("fault delay: each message is delayed") {
  auto run = with("{kind: delay, nodes: [w-1, w-2], at: 5s, lasts: 5s, by:"
                  " 40ms}");
  CHECK(slowest(run, 1s, 4s) < 0.03);
  CHECK(slowest(run, 5100ms, 9900ms) > 0.08);
  CHECK(share_ok(run, 0s, 20s) == 1);
}

TEST_CASE("fault device: a failed request is tried once more and then answered"
          " with the failure") {
  auto run =
    with("{kind: device, nodes: [w-1, w-2], at: 5s, lasts: 5s, part: 1}");
  CHECK(share_ok(run, 0s, 4900ms) == 1);
  CHECK(answers(run, ec::internal, 5100ms, 9900ms) > 400);
  CHECK(share_ok(run, 10100ms, 20s) == 1);
}

TEST_CASE("fault process: a request that ends the process of its model twice is"
          " poison and others are answered") {
  auto run =
    with("{kind: process, nodes: [w-1, w-2], at: 5s, lasts: 5s, part: 0.002}");
  CHECK(share_ok(run, 0s, 4900ms) == 1);
  CHECK(events(run, "executor.instance_lost") >= 1);
  CHECK(share_ok(run, 5100ms, 9900ms) > 0.9);
  CHECK(share_ok(run, 10100ms, 20s) == 1);
}

TEST_CASE("P15: a model that ends each of its processes is quarantined and"
          " serves again within 30 s of its repair") {
  auto run = with(
    "{kind: process, nodes: [w-1, w-2], at: 5s, lasts: 3s, part: 1}", 2, "60s");
  CHECK(events(run, "placement.quarantine") >= 1);
  CHECK(answers(run, ec::poison, 5s, 8s) >= 1);
  CHECK(events(run, "executor.instance_lost") < 10);
  CHECK(share_ok(run, 45s, 59s) == 1);
}

TEST_CASE("fault load: a failed load is tried again later") {
  auto run = with("{kind: load, nodes: [w-1], at: 1s, lasts: 4s, part: 1},"
                  " {kind: kill, nodes: [w-1], at: 2s, lasts: 1s}");
  CHECK(events(run, "replica.failed") >= 1);
  CHECK(share_ok(run, 0s, 20s) == 1);
  auto last = run.replicas.back();
  CHECK(last.ready.value() >= 5s);
}

TEST_CASE("P6: fault wipe: a node that lost its disk is refused once and joins"
          " again") {
  auto run = with("{kind: wipe, nodes: [w-1], at: 5s}");
  CHECK(events(run, "bus.was_refused node=w-1") == 1);
  CHECK(share_ok(run, 7s, 20s) == 1);
}

TEST_CASE("P18: fault disk: the configured models are served after the fault of"
          " the disk ends") {
  auto run = with("{kind: disk, nodes: [front], at: 4s, lasts: 3s, part: 0.2},"
                  "{kind: wipe, nodes: [front], at: 5s, lasts: 100ms}");
  CHECK(events(run, "registry.not_written") >= 1);
  CHECK(events(run, "registry.changed model=m") == 2);
  CHECK(share_ok(run, 10s, 20s) == 1);
}

TEST_CASE("I10: nodes follow the orders of a controller that lost its disk") {
  auto run = with("{kind: wipe, nodes: [front], at: 5s},"
                  " {kind: kill, nodes: [w-1], at: 10s, lasts: 1s}");
  // The new controller ordered the last replica.
  CHECK(run.replicas.back().begun > 10s);
  CHECK(run.replicas.back().ready.value() > 10s);
  CHECK(share_ok(run, 14s, 20s) == 1);
}

namespace {

/// Two workers that must fetch the model from an object store at 8 Mbit/s.
std::string fetching(const std::string& faults) {
  auto out = two_workers(faults);
  auto at = out.find("  m: {");
  out.insert(at + 6, "at: store, bytes: 2MB, ");
  return "network: {store: {speed: 8Mbit/s, latency: 1ms}}\nchunk: 100kB\n"
         + out;
}

} // namespace

TEST_CASE("object store: one host of a chain fetches from the store and without"
          " chains all hosts share its link") {
  const std::string kill = "{kind: kill, nodes: [w-1], at: 8s, lasts: 1s}";
  auto check = [&](const std::string& text, double seconds, uint64_t copies) {
    auto run = run_of(scenario_of(text));
    REQUIRE(run.replicas.size() >= 3);
    // Placement settles after 800 ms. Then follow the transfer and a load of
    // 100 ms.
    for (size_t i = 0; i < 2; ++i)
      CHECK(to_seconds(run.replicas[i].ready.value() + 5s)
            == doctest::Approx(0.9 + seconds).epsilon(0.02));
    CHECK(run.store_bytes / 2'000'000 == copies);
    // The other host still has the model.
    CHECK(run.replicas.back().source != "store");
  };
  check(fetching(kill), 2, 1);
  check(fetching(kill) + "bulk: {topology: unicast}\n", 4, 2);
}

TEST_CASE("replica: the fetch of a crashed cache is repeated") {
  // Two hosts share 8 Mbit/s for 2 MB each: the crash is in the middle.
  auto text = fetching("{kind: crash, nodes: [w-1], at: 1500ms, actor: cache}");
  text.replace(text.find("warm_up: 5s"), 11, "warm_up: 1s");
  auto run = run_of(scenario_of(text));
  CHECK(events(run, "replica.failed") == 1);
  CHECK(events(run, "replica.ready") == 2);
  CHECK(share_ok(run, 16s, 20s) == 1);
}

TEST_CASE("fault store: a host with a failed fetch from the object store tries"
          " again later") {
  auto text = fetching("{kind: store, nodes: [w-1, w-2], at: 0s, lasts: 3s,"
                       " part: 1}");
  auto at = text.find("warm_up: 5s");
  text.replace(at, 11, "warm_up: 500ms");
  auto run = run_of(scenario_of(text));
  CHECK(events(run, "relay.source_lost") >= 1);
  for (auto& x : run.replicas)
    CHECK(x.ready.value() > 2500ms); // the fault ends then
  CHECK(share_ok(run, 16s, 20s) == 1);
}

TEST_CASE("decision: a decision takes effect after its simulated time") {
  auto text = two_workers("");
  auto slow = text + "decisions: {placement: {0: 0s, 2: 700ms}}\n";
  auto begun = [](const std::string& x) {
    return run_of(scenario_of(x)).replicas.front().begun;
  };
  CHECK(begun(slow) - begun(text) == 700ms);
}

TEST_CASE("P24: a lost device affects only its own requests and gets no replica"
          " until it works again") {
  auto run = with("{kind: gpu, nodes: [w-1], at: 5s, lasts: 6s}");
  CHECK(events(run, "executor.out_of_service") == 1);
  CHECK(events(run, "executor.in_service") == 1);
  CHECK(events(run, "replica.lost") == 1);
  CHECK(share_ok(run, 0s, 20s) == 1);
  for (auto& x : run.events)
    if (x.at > 5s && x.at < 11s && x.what.starts_with("placement.deploy"))
      CHECK(x.what.find("node=w-2") != std::string::npos);
}

TEST_CASE("P24: a load on a device that is lost fails and the replica starts on"
          " another device") {
  auto run = with("{kind: gpu, nodes: [w-1], at: 1ms, lasts: 6s},"
                  " {kind: kill, nodes: [w-2], at: 5s, lasts: 950ms},"
                  " {kind: gpu, nodes: [w-2], at: 6050ms, lasts: 10ms}");
  CHECK(events(run, "replica.failed") == 2); // both replicas placed on w-2
  CHECK(share_ok(run, 7s, 20s) == 1);
  CHECK(events(run, "placement.quarantine") == 0);
}

TEST_CASE("P24: a device with only overdue batches for one minute is out of"
          " service until it completes a batch") {
  auto run = run_of(scenario_of(
    "length: 350s\n"
    "warm_up: 5s\n"
    "hosts:\n"
    "  - {name: front, roles: [gateway, controller]}\n"
    "  - {name: w, count: 2, roles: [worker], devices: [{kind: d}]}\n"
    "bundles:\n"
    "  m: {input: 1kB, execute: {d: {1: 4ms, 8: 10ms}}}\n"
    "  endless: {input: 1kB, execute: {d: {1: 150s}}}\n"
    "models: [{model: m, replicas: 2, policy: {batch: 8}}, {model: endless}]\n"
    "workload:\n"
    "  - {model: m, rate: 20, deadline: 500ms}\n"
    "  - {model: endless, arrivals: constant, rate: 0.0055, deadline: "
    "500ms}\n"));
  std::map<std::string, microseconds> when;
  for (auto& x : run.events)
    when.emplace(x.what.substr(0, x.what.find(' ')), x.at);
  REQUIRE(when.contains("executor.out_of_service"));
  REQUIRE(when.contains("executor.in_service"));
  auto lasted = when["executor.in_service"] - when["executor.out_of_service"];
  CHECK(to_seconds(lasted) == doctest::Approx(150 - 60.5).epsilon(0.01));
  CHECK(events(run, "executor.out_of_service") == 1);
  CHECK(events(run, "replica.lost") == 2);
  auto moved = when["executor.out_of_service"] + 1s;
  CHECK(share_ok(run, moved, when["executor.in_service"]) == 1);
}

TEST_CASE("fault crash: requests of a crashed actor are settled or run on"
          " another node") {
  for (auto* actor : {"gateway", "router", "executor", "cache", "replica"}) {
    auto at_workers =
      actor != std::string{"gateway"} && actor != std::string{"router"};
    auto run =
      with("{kind: crash, nodes: [" + std::string{at_workers ? "w-1" : "front"}
           + "], at: 5s, actor: " + actor + "}");
    CAPTURE(actor);
    CHECK(events(run, "simulator.crashed") == 1);
    CHECK(share_ok(run, 0s, 4900ms) == 1);
    CHECK(share_ok(run, 12s, 20s) == 1);
    for (auto& x : run.requests)
      CHECK(x.ended >= 0us);
  }
}

TEST_CASE("replica: a crashed replica leaves no memory and no work on its"
          " device") {
  auto text =
    two_workers("{kind: crash, nodes: [w-1], at: 5s, actor: replica}");
  // Batches of two gateways wait at the executor.
  text.replace(text.find("rate: 100"), 9, "rate: 2000");
  text.insert(text.find("  - {name: w,"), "  - {name: g, roles: [gateway]}\n");
  auto run = run_of(scenario_of(text));
  for (auto& x : run.batches)
    CHECK(run.names[x.model] == "m"); // no batch runs after the end
  size_t ended = 0;
  for (auto& x : run.replicas)
    if (x.ended) {
      ++ended;
      CHECK(*x.ended == 5s);
    }
  CHECK(ended == 1);
  CHECK(run.replicas.size() == 3);
}

TEST_CASE("simulate: a request without an answer is distinguished from a failed"
          " request") {
  // The gateway is killed with open requests and restarts. Later it hangs for
  // longer than any deadline.
  auto run = with("{kind: kill, nodes: [front], at: 5s, lasts: 1s},"
                  "{kind: hang, nodes: [front], at: 15s, lasts: 60min}");
  std::map<std::string, size_t> outcomes;
  for (auto& x : run.requests) {
    ++outcomes[outcome_of(x)];
    CHECK((x.ended < 0us) == (outcome_of(x) == "(no answer)"));
  }
  CHECK(outcomes["(connection lost)"] > 0);
  CHECK(outcomes["(no answer)"] > 400); // of about 500
  CHECK(outcomes["ok"] > 1000);
}

TEST_CASE("simulate: a device that runs a batch at the end of the run counts as"
          " busy") {
  auto text = std::string{
    "length: 20s\n"
    "hosts:\n"
    "  - {name: front, roles: [gateway, controller]}\n"
    "  - {name: w, roles: [worker], devices: [{kind: d}]}\n"
    "bundles: {m: {execute: {d: {1: 60s}}}}\n"
    "models: [{model: m, policy: {batch: 1}}]\n"
    "workload: [{model: m, arrivals: constant, rate: 1, deadline: 90s}]\n"};
  CHECK(summary_of(text).utilisation > 0.9);
}

TEST_CASE("placement: a replica that returns after its replacement is evicted"
          " and not taken for the new replica") {
  auto run = with("{kind: hang, nodes: [w-1], at: 5s, lasts: 3s}", 1);
  CHECK(events(run, "placement.evict") == 1);
  CHECK(share_ok(run, 8s, 20s) == 1);
  std::set<uint32_t> names;
  for (auto& x : run.requests)
    if (x.status == ec::ok)
      names.insert(x.replica);
  CHECK(names.size() == 2);
}

TEST_CASE("placement: workers follow the orders of a restarted placement"
          " actor") {
  auto run = with("{kind: crash, nodes: [front], at: 3s, actor: placement},"
                  "{kind: crash, nodes: [w-1], at: 5s, actor: replica}");
  CHECK(events(run, "placement.deploy") == 3);
  CHECK(events(run, "replica.ready") == 3);
}

TEST_CASE("fault: of several concurrent faults of one kind the worst applies") {
  // The end of the second fault must not end the first.
  auto run = with("{kind: slow, nodes: [w-1, w-2], at: 4s, lasts: 8s, factor:"
                  " 20}, {kind: slow, nodes: [w-1, w-2], at: 5s, lasts: 1s,"
                  " factor: 2}");
  CHECK(slowest(run, 5100ms, 5900ms) > 0.08);
  CHECK(slowest(run, 7s, 11s) > 0.08);
  CHECK(slowest(run, 13s, 20s) < 0.05);
}

TEST_CASE("fault: a node killed without an end stays down in spite of later"
          " faults") {
  auto run = with("{kind: kill, nodes: [w-1], at: 4s}, {kind: wipe, nodes:"
                  " [w-1], at: 5s, lasts: 1s}, {kind: hang, nodes: [w-1], at:"
                  " 6s, lasts: 1s}");
  CHECK(events(run, "simulator.started node=w-1") == 1);
}

TEST_CASE("fault: the number of random faults follows their rate") {
  auto what =
    scenario_of(two_workers("{kind: kill, every: 100ms, lasts: 1ms}"));
  auto planned = plan_faults(what, random_stream{9});
  CHECK(planned.size() > 150);
  CHECK(planned.size() < 250);
}
