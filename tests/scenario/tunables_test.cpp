// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

model_settings in_batches(uint64_t replicas, uint64_t batch,
                          uint64_t batch_max = 0) {
  auto out = want(replicas);
  out.policy.batch = batch;
  out.policy.batch_max = batch_max;
  return out;
}

/// The replicas of all workers, by name, as their nodes report them.
std::map<std::string, replica_status> statuses_on(virtual_cluster& c,
                                                  size_t workers) {
  std::map<std::string, replica_status> out;
  for (size_t i = 1; i <= workers; ++i) {
    auto status = *c.ask_actor<node_status, supervisor_actor>(
      "w" + std::to_string(i) + "/supervisor", get_status{});
    for (auto& r : status.replicas)
      out[r.what.replica] = r;
  }
  return out;
}

size_t started_in(virtual_cluster& c) {
  return c.ask_actor<start_list, placement_actor>("./placement", get_starts{})
    ->starts.size();
}

/// Pins one replica with batch 9 and three with batch 5, saturates them, and
/// returns the share of the requests that ran on the first replica.
double part_of_nine(const emulation& how) {
  virtual_cluster c{4, in_batches(4, 16), how};
  REQUIRE(c.ask_actor<ack, registry_actor>(
    "./registry",
    pin_model{"m", "whole on w1/emu0 batch 9; whole x3 batch 5", 0us}));
  c.advance(2s);
  CHECK(started_in(c) == 4);
  for (uint64_t id = 1; id <= 4000; ++id)
    c.request(id, c.ask(), 100s);
  c.advance(60s);
  CHECK(c.answers() == counts{{ec::ok, 4000}});
  return static_cast<double>(c.executed_on["w1"]) / 4000;
}

} // namespace

TEST_CASE("tunables: replicas share the requests of one queue by batch size or"
          " by batch size per run time") {
  auto flat = part_of_nine({50ms, 10ms, 0us});
  CHECK(flat == doctest::Approx(9. / 24).epsilon(0.02));
  auto sloped = part_of_nine({50ms, 5ms, 1ms});
  auto first = 9. / 14, other = 5. / 10;
  CHECK(sloped == doctest::Approx(first / (first + 3 * other)).epsilon(0.02));
}

TEST_CASE("tunables: a replica of weight 3 gets three times the batches of"
          " weight 1 while both have credit") {
  virtual_cluster c{2, in_batches(2, 1), {50ms, 1ms, 0us}};
  REQUIRE(c.ask_actor<ack, registry_actor>(
    "./registry", pin_model{"m", "whole on w1/emu0 weight 3; whole", 0us}));
  c.advance(2s);
  for (uint64_t id = 1; id <= 400; ++id) {
    c.request(id);
    c.advance(10ms);
  }
  CHECK(c.answers() == counts{{ec::ok, 400}});
  CHECK(c.executed_on["w1"] == 300);
  CHECK(started_in(c) == 2);
}

TEST_CASE("tunables: a request larger than the batch_max of every replica is"
          " refused as too_large") {
  virtual_cluster c{2, in_batches(2, 2, 4)};
  c.request(1, c.ask(4));
  c.request(2, c.ask(5));
  c.advance(1s);
  CHECK(c.replies[1].at(0).status == ec::ok);
  CHECK(c.replies[2].at(0).status == ec::too_large);
  CHECK(c.replies[2].at(0).error
        == "the request has 5 rows, and the largest batch of a replica of model"
           " 'm' has 4 (policy.batch_max): split the request");
  REQUIRE(c.ask_actor<ack, registry_actor>(
    "./registry",
    pin_model{"m", "whole batch-max 8; whole x1 batch-max 4", 0us}));
  c.advance(5s);
  for (uint64_t id = 3; id <= 20; ++id)
    c.request(id, c.ask(id % 2 == 0 ? 8 : 1));
  c.request(21, c.ask(9));
  c.advance(5s);
  CHECK(c.answers() == counts{{ec::ok, 19}, {ec::too_large, 2}});
}

TEST_CASE("adjust: a thousand changes of parameters under load start no replica"
          " and lose no request") {
  virtual_cluster c{2, in_batches(2, 8), ten_ms};
  auto x = in_batches(2, 8);
  auto before = started_in(c);
  uint64_t id = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    x.policy.batch = 1 + i % 8;
    x.concurrency = i % 3;
    x.threads = 1 + i % 2;
    x.policy.overlap = i % 2;
    x.policy.queue = 1000 + i;
    x.tenants = i % 2 == 0 ? std::vector<std::string>{}
                           : std::vector<std::string>{"default"};
    have(c, x);
    for (int k = 0; k < 3; ++k)
      c.request(++id);
    c.advance(15ms);
  }
  c.advance(5s);
  CHECK(c.answers() == counts{{ec::ok, id}});
  CHECK(c.executions == id);
  CHECK(started_in(c) == before);
  auto all = statuses_on(c, 2);
  CHECK(all.size() == 2);
  for (auto& [name, r] : all) {
    CHECK(r.state == replica_condition::ready);
    CHECK(r.what.tuned == tunables{8, 0, 2, 1, 0});
    CHECK(r.what.policy.queue == 1999);
  }
}

TEST_CASE("adjust: a batch larger than the loaded rows replaces only the"
          " replicas of its group") {
  virtual_cluster c{3, in_batches(3, 8), ten_ms};
  auto pin = [&](const std::string& groups) {
    REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                             pin_model{"m", groups, 0us}));
    c.advance(5s);
  };
  pin("whole on w1/emu0; whole x2");
  auto before = statuses_on(c, 3);
  pin("whole on w1/emu0 batch 16; whole x2 batch 4");
  auto after = statuses_on(c, 3);
  CHECK(after.size() == 3);
  size_t kept = 0;
  for (auto& [name, r] : after) {
    kept += before.contains(name);
    CHECK(before.contains(name) == (r.what.node != "w1"));
    CHECK(r.what.tuned.batch == (r.what.node == "w1" ? 16u : 4u));
  }
  CHECK(kept == 2);
}

TEST_CASE("adjust: a replica with wrong parameters is listed and gets the right"
          " parameters again") {
  virtual_cluster c{1, in_batches(1, 8), ten_ms};
  auto is = statuses_on(c, 1).begin()->second.what;
  auto name = is.replica;
  auto drifted = [&](uint64_t batch) {
    return adjust{0, 0, name, {batch, 0, 1, 1, 0}, is.policy, {}, is.group};
  };
  // Only the report of the replica itself can show the change.
  c.tell("w1/replica/" + name, drifted(3));
  c.advance(10ms);
  CHECK(statuses_on(c, 1)[name].what.tuned.batch == 3);
  c.advance(100ms);
  CHECK(statuses_on(c, 1)[name].what.tuned.batch == 8);
  c.tell("w1/replica/" + name, drifted(5));
  c.advance(100ms); // the last adjustment was less than 1 s ago
  CHECK(statuses_on(c, 1)[name].what.tuned.batch == 5);
  c.advance(1s);
  CHECK(statuses_on(c, 1)[name].what.tuned.batch == 8);
}

namespace {

device_info device_of(virtual_cluster& c, const std::string& node) {
  auto status = *c.ask_actor<node_status, supervisor_actor>(
    node + "/supervisor", get_status{});
  REQUIRE(status.devices.size() == 1);
  return status.devices[0];
}

/// The note on the model in the list of models.
std::string note_of(virtual_cluster& c) {
  auto list =
    *c.ask_actor<model_list, registry_actor>("./registry", get_models{});
  REQUIRE(list.models.size() == 1);
  return list.models[0].note;
}

model_settings sharing_devices(const std::string& devices) {
  auto out = in_batches(1, 8);
  out.scaling.policy = "given";
  out.scaling.options = {{"groups", "whole"}, {"devices", devices}};
  return out;
}

} // namespace

TEST_CASE("tunables: limits outside their bounds from a broken node do not stop"
          " the router") {
  virtual_cluster c{2, in_batches(2, 4), ten_ms};
  auto names = statuses_on(c, 2);
  auto node = names.begin()->second.what.node;
  auto handle = c.actor(node + "/replica/" + names.begin()->first);
  REQUIRE(handle);
  for (auto weight : {0., -1., std::nan(""), 1e300}) {
    c.tell("./gateway", replica_tuned{handle, {0, 0, UINT32_MAX, weight}});
    for (uint64_t id = 1; id <= 20; ++id)
      c.request(id);
    c.advance(2s);
    CHECK(c.answers() == counts{{ec::ok, 20}});
    c.replies.clear();
  }
}

TEST_CASE("adjust: a scope sets the sharing of a device through restarts of its"
          " executor until the scope drops the device") {
  virtual_cluster c{2, sharing_devices("w1/emu0 time"), ten_ms};
  CHECK(device_of(c, "w1").sharing.mode == sharing_mode::time);
  CHECK(device_of(c, "w1").ordered);
  CHECK(device_of(c, "w2").sharing.mode == sharing_mode::lanes);
  auto& node = c.node("w1");
  c.inside().world().soon(*node.process(), [&node] {
    caf::anon_send_exit(node.bus()->resolve("./executor/emu0"),
                        caf::exit_reason::kill);
  });
  c.advance(5s);
  CHECK(device_of(c, "w1").sharing.mode == sharing_mode::time);
  auto before = started_in(c);
  have(c, sharing_devices("emu0 cap at-once 1"));
  c.advance(2s);
  for (auto name : {"w1", "w2"})
    CHECK(device_of(c, name).sharing
          == device_sharing{sharing_mode::cap, 1, 0});
  have(c, sharing_devices(""));
  c.advance(2s);
  for (auto name : {"w1", "w2"}) {
    CHECK(device_of(c, name).sharing == device_sharing{});
    CHECK_FALSE(device_of(c, name).ordered);
  }
  CHECK(started_in(c) == before);
}

TEST_CASE("adjust: a limit above the lanes of a device is refused and the last"
          " plan stays") {
  virtual_cluster c{1, sharing_devices("emu0 time"), ten_ms};
  have(c, sharing_devices("emu0 wave at-once 4"));
  c.advance(3s);
  CHECK(device_of(c, "w1").sharing.mode == sharing_mode::time);
  CHECK(note_of(c)
        == "the proposal of its scope is refused: device 'w1/emu0':"
           " sharing.at_once: found 4, expected at most 1 (lanes of"
           " the device)");
  have(c, sharing_devices("emu0 time"));
  c.advance(3s);
  CHECK(note_of(c).empty());
  have(c, sharing_devices("emu9 time"));
  c.advance(3s);
  CHECK(note_of(c)
        == "its scope proposes a sharing of device 'emu9', which no"
           " node has");
  have(c, sharing_devices("emu0 time"));
  c.advance(3s);
  CHECK(note_of(c).empty());
  c.request(1);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 1}});
}

TEST_CASE("times: queue plus execution equals latency without network delay and"
          " gathering is queue time beside a free replica") {
  auto wanted = in_batches(1, 4);
  wanted.policy.batch_delay = 20ms;
  virtual_cluster c{1, wanted, ten_ms};
  for (uint64_t id = 1; id <= 40; ++id) {
    c.request(id);
    c.advance(id <= 20 ? 3ms : 37ms);
  }
  c.advance(1s);
  microseconds gathered{0};
  for (auto& [id, replies] : c.replies) {
    auto& x = replies.at(0);
    REQUIRE(x.status == ec::ok);
    CHECK(std::abs((x.total - x.queue - x.execute).count()) <= 1);
    CHECK(x.gathered <= x.queue);
    CHECK(x.interference == 0us);
    gathered += x.gathered;
    if (id > 25)
      CHECK(x.gathered == 20ms);
  }
  CHECK(gathered > 15 * 20ms);
}
