// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A model that may have zero replicas and scales to zero after 2 s without
/// requests.
model_settings elastic() {
  auto out = one_by_one(1);
  out.scaling.policy = "arrival_rate";
  out.scaling.options = {
    {"idle", "2s"}, {"window", "1s"}, {"up_after", "0s"}, {"cooldown", "0s"}};
  out.scaling.min = 0;
  out.scaling.max = 2;
  return out;
}

size_t replicas_on(virtual_cluster& c, const std::string& node) {
  auto status = *c.ask_actor<node_status, supervisor_actor>(
    node + "/supervisor", get_status{});
  return static_cast<size_t>(
    std::count_if(status.replicas.begin(), status.replicas.end(), [](auto& r) {
      return r.state == replica_condition::ready
             || r.state == replica_condition::starting;
    }));
}

std::optional<ec> status_of(virtual_cluster& c, uint64_t id) {
  auto i = c.replies.find(id);
  if (i == c.replies.end())
    return std::nullopt;
  CHECK(i->second.size() == 1);
  return i->second.front().status;
}

} // namespace

TEST_CASE("FP-01, FP-03: requests for a model without a replica wait in its"
          " queue and one load serves all") {
  virtual_cluster c{2, elastic(), ten_ms};
  CHECK(replicas_on(c, "w1") + replicas_on(c, "w2") == 0);
  for (uint64_t i = 1; i <= 20; ++i)
    c.request(i);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 20}});
  CHECK(replicas_on(c, "w1") + replicas_on(c, "w2") == 1);
}

TEST_CASE("FP-01: requests for a model with a fixed number of replicas wait"
          " for the first ready replica") {
  virtual_cluster c{1, one_by_one(0), emulation{500ms, 9ms, 1ms}};
  have(c, one_by_one(1));
  c.advance(100ms); // the replica loads
  c.request(1);
  c.advance(300ms);
  CHECK(c.answers().empty());
  c.advance(300ms);
  CHECK(c.answers() == counts{{ec::ok, 1}});
}

TEST_CASE("FP-04: the last replica ends after the idle time and the next"
          " request starts another") {
  virtual_cluster c{1, elastic(), ten_ms};
  c.request(1);
  c.advance(1s);
  CHECK(status_of(c, 1) == ec::ok);
  CHECK(replicas_on(c, "w1") == 1);
  c.advance(500ms);
  CHECK(replicas_on(c, "w1") == 1); // the replica was idle for less than 2 s
  c.advance(4s);
  CHECK(replicas_on(c, "w1") == 0);
  c.request(2);
  c.advance(1s);
  CHECK(status_of(c, 2) == ec::ok);
}

TEST_CASE("zero: a request at any step of the last eviction is answered") {
  // The last replica ends between 2 and 5 s after the first request.
  for (int at = 2000; at <= 5000; at += 37) {
    CAPTURE(at);
    virtual_cluster c{1, elastic(), ten_ms};
    c.request(1);
    c.advance(milliseconds{at});
    c.request(2, c.ask(), 2s);
    c.advance(2s);
    CHECK(status_of(c, 2) == ec::ok);
  }
}

TEST_CASE("zero: waiting requests expire at their deadline and the queue limit"
          " applies") {
  auto x = elastic();
  x.policy.queue = 5;
  virtual_cluster c{1, x, emulation{10s, 9ms, 1ms}};
  for (uint64_t i = 1; i <= 8; ++i)
    c.request(i, c.ask(), 500ms);
  c.advance(400ms);
  CHECK(c.answers() == counts{{ec::overloaded, 3}});
  c.advance(200ms);
  CHECK(c.answers() == counts{{ec::overloaded, 3}, {ec::deadline_exceeded, 5}});
}

TEST_CASE("zero: a model without an allowed device is unavailable and the"
          " answer states the reason") {
  auto x = elastic();
  x.device = "gpu";
  virtual_cluster c{1, x, ten_ms};
  c.request(1);
  c.advance(1s);
  CHECK(status_of(c, 1) == ec::unavailable);
  CHECK(c.replies[1][0].error
        == "no replica of model 'm' can be started: no ready node that has the"
           " bundle, or can get it, has the device in service");
}

TEST_CASE("zero: a restarted gateway serves models without replicas") {
  virtual_cluster c{1, elastic(), ten_ms};
  c.crash("./gateway");
  c.advance(3s);
  c.request(1);
  c.advance(1s);
  CHECK(status_of(c, 1) == ec::ok);
}

TEST_CASE("zero: a model fixed at zero replicas is not served") {
  virtual_cluster c{1, elastic(), ten_ms};
  auto none = one_by_one(0);
  have(c, none);
  c.advance(200ms);
  c.request(1);
  c.advance(100ms);
  CHECK(status_of(c, 1) == ec::unknown_model);
}

TEST_CASE(
  "zero: a model that was unloaded and is served again without a replica"
  " takes requests again") {
  virtual_cluster c{1, elastic(), ten_ms};
  auto off = elastic();
  off.replicas = 0;
  for (auto& settings : {off, elastic()}) {
    c.advance(5s); // afterwards no replica exists
    have(c, settings);
    c.advance(500ms);
  }
  c.request(1);
  c.advance(1s);
  CHECK(status_of(c, 1) == ec::ok);
}

TEST_CASE("scaling: a proposal that names a model of another scope is refused"
          " as a whole and the plan stays") {
  virtual_cluster c{3, one_by_one(1), ten_ms};
  auto other = one_by_one(0);
  other.model = "other";
  have(c, other);
  c.advance(200ms);
  auto group = [](const std::string& scope, const std::string& model,
                  uint64_t copies) {
    replica_group x;
    x.id = scope + "/" + model + "/whole";
    x.model = model;
    x.version = 1;
    x.layers = {0, 1};
    x.cut = "whole";
    x.count = copies;
    return x;
  };
  proposal x;
  x.scope = "model/other";
  x.snapshot = 1000; // later than all snapshots of this test
  x.groups = {group(x.scope, "other", 1), group(x.scope, "m", 3)};
  c.tell("./placement", x);
  c.advance(1s);
  size_t there = 0;
  for (auto* node : {"w1", "w2", "w3"})
    there += replicas_on(c, node);
  CHECK(there == 1);
  x.groups.pop_back();
  c.tell("./placement", x);
  c.advance(1s);
  for (auto* node : {"w1", "w2", "w3"})
    there += replicas_on(c, node);
  CHECK(there == 3); // 1 counted before, 2 now
}
