// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "runtime/random.hpp"
#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("I4: a late result for a hung gateway is not a success") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1, c.ask(), 15ms);
  c.advance(5ms);
  c.front().pause();
  c.advance(50ms);
  CHECK(c.executions == 1);
  c.front().resume();
  c.drain();
  CHECK(c.answers() == counts{{ec::deadline_exceeded, 1}});
}

TEST_CASE("scenario: a configured model is deployed and answers") {
  virtual_cluster c{2, want(2), ten_ms};
  c.request(1);
  c.advance(9ms);
  CHECK(c.replies.empty());
  c.advance(2ms);
  REQUIRE(c.replies.contains(1));
  auto& y = c.replies[1][0];
  CHECK(y.status == ec::ok);
  CHECK(y.execute == 10ms);
  CHECK(y.outputs[0].value.extents == shape{1, 2});
}

TEST_CASE("router: requests queued while replicas are busy form a batch") {
  virtual_cluster c{1, want(1), ten_ms};
  // Two requests are dispatched at once and alone: one running batch and one
  // next.
  for (uint64_t i = 1; i <= 12; ++i) {
    c.request(i);
    c.drain();
  }
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::ok, 12}});
  CHECK(c.replies[1][0].batch == 1);
  CHECK(c.replies[12][0].batch == 10);
  CHECK(c.replies[12][0].execute == 19ms);
}

TEST_CASE("P1: a request without an answer ends at its deadline") {
  virtual_cluster c{1, want(1), ten_ms};
  c.kill("w1");
  c.request(1, c.ask(), 500ms);
  c.advance(499ms);
  CHECK(c.replies.empty());
  c.advance(2ms);
  CHECK(c.answers() == counts{{ec::deadline_exceeded, 1}});
}

TEST_CASE("replicas: a failed replica is listed for one minute") {
  virtual_cluster c{1, want(1), ten_ms};
  auto failed = [&] {
    auto status = *c.ask_actor<node_status, supervisor_actor>("w1/supervisor",
                                                              get_status{});
    return std::count_if(
      status.replicas.begin(), status.replicas.end(),
      [](auto& r) { return r.state == replica_condition::failed; });
  };
  tell_replica(c, "m.1.1", stage_lost{0, "test"});
  c.advance(50s);
  CHECK(failed() == 1);
  c.advance(11s);
  CHECK(failed() == 0);
}

TEST_CASE("P3: requests of a node that is cut off run on another node") {
  virtual_cluster c{2, want(2), ten_ms};
  for (uint64_t i = 1; i <= 40; ++i)
    c.request(i);
  c.advance(5ms);
  c.kill("w1");
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 40}});
}

TEST_CASE("P15: a request that lost its replica twice is answered poison") {
  virtual_cluster c{2, want(2), ten_ms};
  c.request(1);
  c.advance(2ms);
  c.kill("w1");
  c.advance(2ms);
  c.kill("w2");
  c.advance(20s);
  auto& y = c.replies[1][0];
  CHECK(y.status == ec::poison);
  CHECK(y.error.find("which had failed before") != std::string::npos);
}

TEST_CASE("P15: inputs that ended the process of their model twice are refused"
          " and others are not") {
  virtual_cluster c{2, want(2), ten_ms};
  auto break_processes = [&](double part) {
    for (auto name : {"w1", "w2"})
      c.node(name).faults().ending_executions = part;
  };
  break_processes(1);
  c.request(1);
  c.advance(3s);
  REQUIRE(c.replies[1].size() == 1);
  CHECK(c.replies[1][0].status == ec::poison);
  c.request(2);
  c.advance(5ms);
  REQUIRE(c.replies[2].size() == 1); // before the request could have run
  CHECK(c.replies[2][0].status == ec::poison);
  break_processes(0);
  c.request(3, c.ask(2));
  c.advance(50ms);
  REQUIRE(c.replies[3].size() == 1); // no process was lost in the meantime
  CHECK(c.replies[3][0].status == ec::ok);
}

TEST_CASE("P15: a request that was only queued when a process ended is not"
          " counted as tried") {
  auto wanted = want(1);
  wanted.policy.batch = 1;
  virtual_cluster c{1, wanted, ten_ms};
  c.node("w1").faults().ending_executions = 1;
  c.request(1);
  c.request(2);
  c.advance(120ms); // each request ended one process
  CHECK(c.given == 2);
  c.node("w1").faults().ending_executions = 0;
  c.advance(9s);
  CHECK(c.answers() == counts{{ec::ok, 2}});
}

TEST_CASE("I5: a request that may run once is not repeated after a loss") {
  auto wanted = want(2);
  bool idempotent = true;
  SUBCASE("set by the model") {
    wanted.policy.retry = retry_policy::never;
  }
  SUBCASE("set by the request") {
    idempotent = false;
  }
  virtual_cluster c{2, wanted, ten_ms};
  auto x = c.ask();
  x.idempotent = idempotent;
  c.request(1, x);
  c.advance(2ms);
  c.kill(c.given_to);
  c.advance(2s);
  auto& y = c.replies[1][0];
  CHECK(y.status == ec::unavailable);
  CHECK(y.error.find("must not be run twice") != std::string::npos);
  CHECK(c.executions == 0); // not run after the loss
}

TEST_CASE("router: a full queue answers overloaded with a retry-after") {
  auto wanted = want(1);
  wanted.policy.queue = 5;
  wanted.policy.batch = 1;
  virtual_cluster c{1, wanted, ten_ms};
  for (uint64_t i = 1; i <= 10; ++i)
    c.request(i);
  c.advance(1s);
  // Two requests are at the replica and five in the queue.
  CHECK(c.answers() == counts{{ec::ok, 7}, {ec::overloaded, 3}});
  CHECK(c.replies[10][0].retry_after > 0us);
}

TEST_CASE("router: a request that cannot finish before its deadline is dropped"
          " before it runs") {
  auto wanted = want(1);
  wanted.policy.batch = 1;
  virtual_cluster c{1, wanted, ten_ms};
  for (uint64_t i = 1; i <= 10; ++i)
    c.request(i, c.ask(), 55ms);
  c.advance(1s);
  auto found = c.answers();
  CHECK(found[ec::ok] >= 4);
  CHECK(found[ec::ok] <= 5);
  CHECK(found[ec::ok] + found[ec::overloaded] == 10);
}

TEST_CASE("placement: replicas of a lost node are started on another node") {
  virtual_cluster c{2, want(2), ten_ms};
  c.kill("w2");
  c.advance(1s);
  for (uint64_t i = 1; i <= 4; ++i)
    c.request(i);
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::ok, 4}});
  c.kill("w1");
  c.start_spare();
  c.advance(5s);
  c.request(5);
  c.advance(100ms);
  CHECK(c.replies[5][0].status == ec::ok);
}

TEST_CASE("registry: a setting of an operator takes effect and survives a crash"
          " of the controller") {
  virtual_cluster c{1, want(1), ten_ms};
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                           set_model{want(3), false, {}}));
  c.advance(1s);
  // All actors of the controller restart together.
  c.crash("./placement");
  c.advance(5s);
  auto list =
    c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  REQUIRE(list);
  REQUIRE(list->models.size() == 1);
  CHECK(list->models[0].settings.replicas == 3);
  CHECK(list->models[0].ready == 3);
}

TEST_CASE("registry: a change based on outdated settings is refused") {
  virtual_cluster c{1, want(1), ten_ms};
  auto change = [&](model_settings from, model_settings to) {
    return c.ask_actor<ack, registry_actor>("./registry",
                                            set_model{to, false, from});
  };
  auto distrusted = want(2);
  auto known =
    c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  REQUIRE(known);
  auto now = known->models[0].settings;
  CHECK(change(now, distrusted));
  auto late = change(now, want(3));
  REQUIRE_FALSE(late);
  CHECK(late.failure().code == ec::conflict);
  CHECK(change(distrusted, want(3)));
}

TEST_CASE("P1: requests of a crashed gateway are settled and its replicas"
          " connect to the new gateway") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1);
  c.advance(2ms);
  c.request(2); // in the mailbox of the gateway at its crash
  c.crash("./gateway");
  c.advance(1s);
  for (uint64_t id : {1, 2}) {
    REQUIRE(c.replies[id].size() == 1);
    CHECK(c.replies[id][0].status == ec::unavailable);
  }
  c.request(3);
  c.advance(100ms);
  REQUIRE(c.replies[3].size() == 1);
  CHECK(c.replies[3][0].status == ec::ok);
}

TEST_CASE("supervisor: an exhausted restart budget takes the node out of"
          " service and keeps the reason") {
  virtual_cluster c{1, want(1), ten_ms};
  for (int i = 0; i < 6; ++i) {
    c.crash("./gateway");
    c.advance(2s);
  }
  auto [state, reason] = c.front().state().get();
  CHECK(state == node_condition::failed);
  CHECK(reason.find("gateway crashed more than 5 times in a minute") == 0);
}

TEST_CASE("replica: a replica that cannot start does not disturb its device and"
          " neighbours") {
  virtual_cluster c{1, want(1), ten_ms};
  set_model broken;
  broken.settings.model = "broken";
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry", broken));
  c.advance(10s);
  auto status =
    c.ask_actor<node_status, supervisor_actor>("w1/supervisor", get_status{});
  REQUIRE(status);
  for (auto& x : status->actors)
    CHECK(x.restarts == 0);
  auto state_of = [&](const std::string& model) {
    for (auto& r : status->replicas)
      if (r.what.model == model)
        return r.state;
    return replica_condition::draining;
  };
  CHECK(state_of("m") == replica_condition::ready);
  CHECK(state_of("broken") == replica_condition::failed);
}

TEST_CASE("P15: a quarantined model that is loaded anew starts at once") {
  virtual_cluster c{1, want(1), ten_ms};
  auto set = [&](uint64_t replicas) {
    set_model x;
    x.settings.model = "broken";
    x.settings.replicas = replicas;
    REQUIRE(c.ask_actor<ack, registry_actor>("./registry", x));
    c.advance(100ms);
  };
  auto starts = [&] {
    auto x =
      c.ask_actor<start_list, placement_actor>("./placement", get_starts{});
    REQUIRE(x);
    return std::count_if(x->starts.begin(), x->starts.end(),
                         [](auto& y) { return y.how.what.model == "broken"; });
  };
  set(1);
  c.advance(20s); // the next pause is long
  auto before = starts();
  CHECK(before > 3);
  set(0);
  set(1);
  CHECK(starts() == before + 1);
}

TEST_CASE("gateway: at the limit of models a model without replicas is replaced"
          " by a new model") {
  gateway_config limits;
  limits.max_models = 1;
  virtual_cluster c{1, want(1), ten_ms, limits};
  auto set = [&](const std::string& model, uint64_t replicas) {
    set_model x;
    x.settings.model = model;
    x.settings.replicas = replicas;
    REQUIRE(c.ask_actor<ack, registry_actor>("./registry", x));
    c.advance(3s);
  };
  auto status_of = [&](uint64_t id, const std::string& model) {
    auto x = c.ask();
    x.model = model;
    c.request(id, x);
    c.advance(1s);
    return c.replies[id][0].status;
  };
  set("other", 1);
  CHECK(status_of(1, "m") == ec::ok);
  CHECK(status_of(2, "other") == ec::unavailable);
  CHECK(status_of(5, "typo") == ec::unknown_model);
  set("m", 0);
  set("other", 0);
  set("other", 1);
  CHECK(status_of(3, "other") == ec::ok);
  CHECK(status_of(4, "m") == ec::unknown_model);
}

TEST_CASE("router: after slow batches a free replica still gets requests that"
          " it can finish in time") {
  virtual_cluster c{1, want(1), ten_ms};
  auto ask = [&](uint64_t id, int64_t rows, microseconds deadline) {
    c.request(id, c.ask(rows), deadline);
    c.advance(1s);
    return c.replies[id][0].status;
  };
  for (uint64_t id = 1; id <= 5; ++id)
    REQUIRE(ask(id, 500, 10s) == ec::ok); // 500 ms each
  for (uint64_t id = 6; id <= 10; ++id)
    CHECK(ask(id, 1, 50ms) == ec::ok);
}

TEST_CASE("P1: a gateway that shuts down answers unavailable") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1);
  c.drain();
  REQUIRE(c.ask_actor<ack, supervisor_actor>("./supervisor", drain{}));
  c.request(2);
  c.advance(12ms); // the gateway has ended, but not its node
  c.request(3);
  c.drain();
  CHECK(c.answers() == counts{{ec::ok, 1}, {ec::unavailable, 2}});
}

TEST_CASE("router: a request past its deadline is not run again") {
  virtual_cluster c{3, want(3), {50ms, 1s, 1ms}};
  c.request(1, c.ask(), 500ms);
  c.advance(600ms);
  CHECK(c.answers() == counts{{ec::deadline_exceeded, 1}});
  c.kill(c.given_to);
  c.advance(10s);
  CHECK(c.executions == 0);
}

TEST_CASE("P7: a node refuses orders of a controller older than its own") {
  virtual_cluster c{1, want(0), ten_ms};
  auto order = [&](uint64_t epoch, uint64_t sequence,
                   const std::string& replica) {
    deploy x;
    x.epoch = epoch;
    x.sequence = sequence;
    x.what.replica = replica;
    x.what.model = "m";
    x.what.version = 1;
    x.what.node = "w1";
    x.what.device = "emu0";
    c.tell("w1/supervisor", x);
    auto status =
      c.ask_actor<node_status, supervisor_actor>("w1/supervisor", get_status{});
    REQUIRE(status);
    return std::any_of(status->replicas.begin(), status->replicas.end(),
                       [&](auto& r) { return r.what.replica == replica; });
  };
  constexpr uint64_t later = 1'000'000'000; // than the epoch here
  CHECK(order(later, 1, "m.1.101"));
  CHECK_FALSE(order(later - 1, 5, "m.1.102"));
  CHECK_FALSE(order(later, 1, "m.1.103"));
  CHECK(order(later, 2, "m.1.104"));
  CHECK(order(later + 1, 1, "m.1.105"));
}

TEST_CASE("registry: settings beyond their limits are refused by name") {
  virtual_cluster c{1, want(1), ten_ms};
  set_model many;
  many.settings.model = "m";
  many.settings.replicas = 20'000;
  auto x = c.ask_actor<ack, registry_actor>("./registry", many);
  CHECK(x.failure().code == ec::bad_request);
  CHECK(x.failure().text
        == "replicas: expected between 0 and 10000, found 20000");
}

TEST_CASE("P10: a request larger than the limit of the gateway is refused as"
          " too_large and not as overloaded") {
  gateway_config limits;
  limits.max_client_bytes = {8};
  virtual_cluster c{1, want(1), ten_ms, limits};
  c.request(1);
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::too_large, 1}});
}

TEST_CASE("gateway: a request with the id of an open request is refused") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1);
  c.request(1);
  c.advance(100ms);
  REQUIRE(c.replies[1].size() == 2);
  CHECK(c.replies[1][0].status == ec::bad_request);
  CHECK(c.replies[1][1].status == ec::ok);
}

TEST_CASE("P10: one client cannot fill the gateway with its bytes") {
  gateway_config limits;
  limits.max_client_bytes = {40}; // an input has 16 bytes
  virtual_cluster c{1, want(1), ten_ms, limits};
  for (uint64_t i = 1; i <= 3; ++i)
    c.request(i);
  c.request(4, c.ask(), 10s, "another");
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::ok, 3}, {ec::overloaded, 1}});
  CHECK(c.replies[3][0].status == ec::overloaded);
  // Answered requests free their bytes.
  c.request(5);
  c.advance(100ms);
  CHECK(c.replies[5][0].status == ec::ok);
}

TEST_CASE("monitor: the utilisation of devices and replicas is reported") {
  virtual_cluster c{1, want(1), ten_ms};
  for (uint64_t i = 1; i <= 150; ++i) {
    c.request(i);
    c.advance(20ms);
  }
  auto x = c.load_of("w1");
  REQUIRE(x.devices.size() == 1);
  REQUIRE(x.replicas.size() == 1);
  CHECK(x.devices[0].busy == doctest::Approx(0.5).epsilon(0.05));
  CHECK(x.devices[0].batches_per_second == doctest::Approx(50).epsilon(0.05));
  CHECK(x.replicas[0].replica == "m.1.1");
  CHECK(x.replicas[0].requests_per_second == doctest::Approx(50).epsilon(0.05));
  CHECK(x.replicas[0].batch == doctest::Approx(1));
}

TEST_CASE("monitor: a restarted monitor reports all devices again") {
  virtual_cluster c{1, want(1), ten_ms};
  c.crash("w1/monitor");
  c.advance(4s);
  auto x = c.load_of("w1");
  CHECK(x.devices.size() == 1);
  CHECK(x.replicas.size() == 1);
}

TEST_CASE("P20: two runs with one seed give equal answers at equal times") {
  auto run = [] {
    virtual_cluster c{3, want(3), ten_ms};
    std::vector<std::tuple<uint64_t, microseconds, std::string>> out;
    random_stream random{5};
    for (uint64_t i = 1; i <= 200; ++i) {
      c.request(i, c.ask(), 200ms);
      c.advance(microseconds{static_cast<int64_t>(random.below(3000))});
      if (i == 100)
        c.kill("w2");
    }
    c.advance(1s);
    for (auto& [id, replies] : c.replies)
      out.emplace_back(id, replies[0].total, replies[0].replica);
    return out;
  };
  auto first = run();
  CHECK(first.size() == 200);
  CHECK(first == run());
}
