// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "runtime/random.hpp"
#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE(
  "I4: a result that waited for a gateway that hung is no success when its"
  " deadline has passed") {
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

TEST_CASE("scenario: a wanted model is deployed, ready and answers") {
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

TEST_CASE("router: what queues up while replicas are busy becomes a batch") {
  virtual_cluster c{1, want(1), ten_ms};
  // Two go at once and alone: the replica has a batch that runs and one next.
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

TEST_CASE("P1: a request nobody answers is deadline_exceeded at its deadline") {
  virtual_cluster c{1, want(1), ten_ms};
  c.kill("w1");
  c.request(1, c.ask(), 500ms);
  c.advance(499ms);
  CHECK(c.replies.empty());
  c.advance(2ms);
  CHECK(c.answers() == counts{{ec::deadline_exceeded, 1}});
}

TEST_CASE("replicas: one that failed is shown for a minute") {
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

TEST_CASE("P3: when a node is cut off its requests are run elsewhere") {
  virtual_cluster c{2, want(2), ten_ms};
  for (uint64_t i = 1; i <= 40; ++i)
    c.request(i);
  c.advance(5ms);
  c.kill("w1");
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 40}});
}

TEST_CASE("P15: a request whose replica is lost twice is answered poison") {
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

TEST_CASE("P15: inputs that ended their model's process twice are refused from"
          " then on, and no others") {
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
  REQUIRE(c.replies[2].size() == 1); // before it could have run
  CHECK(c.replies[2][0].status == ec::poison);
  break_processes(0);
  c.request(3, c.ask(2));
  c.advance(50ms);
  REQUIRE(c.replies[3].size() == 1); // no process was lost meanwhile
  CHECK(c.replies[3][0].status == ec::ok);
}

TEST_CASE("P15: who only waited where a process ended has not been tried yet") {
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

TEST_CASE("I5: what must not be run twice is not, when its replica is lost") {
  auto wanted = want(2);
  bool idempotent = true;
  SUBCASE("as the model says") {
    wanted.policy.retry = retry_policy::never;
  }
  SUBCASE("as the request says") {
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
  CHECK(c.executions == 0); // the one that was lost, and no other
}

TEST_CASE("router: a full queue answers overloaded with a retry-after") {
  auto wanted = want(1);
  wanted.policy.queue = 5;
  wanted.policy.batch = 1;
  virtual_cluster c{1, wanted, ten_ms};
  for (uint64_t i = 1; i <= 10; ++i)
    c.request(i);
  c.advance(1s);
  // Two at the replica, five in the queue.
  CHECK(c.answers() == counts{{ec::ok, 7}, {ec::overloaded, 3}});
  CHECK(c.replies[10][0].retry_after > 0us);
}

TEST_CASE("router: what cannot be done in time is dropped before it is run") {
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

TEST_CASE("placement: replicas of a lost node come up on another") {
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

TEST_CASE("registry: what an operator sets is done and outlives the"
          " controller's crash") {
  virtual_cluster c{1, want(1), ten_ms};
  REQUIRE(c.ask_actor<ack, registry_actor>("./registry",
                                           set_model{want(3), false, {}}));
  c.advance(1s);
  // The whole group of the controller falls and rises.
  c.crash("./placement");
  c.advance(5s);
  auto list =
    c.ask_actor<model_list, placement_actor>("./placement", get_models{});
  REQUIRE(list);
  REQUIRE(list->models.size() == 1);
  CHECK(list->models[0].settings.replicas == 3);
  CHECK(list->models[0].ready == 3);
}

TEST_CASE("registry: a change of what is not there any more is refused") {
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

TEST_CASE("P1: a crashed gateway leaves nobody waiting, and its replicas find"
          " the new one") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1);
  c.advance(2ms);
  c.request(2); // lies in its mailbox when it dies
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

TEST_CASE("supervisor: an exhausted budget takes the node out of service, with"
          " the reason kept") {
  virtual_cluster c{1, want(1), ten_ms};
  for (int i = 0; i < 6; ++i) {
    c.crash("./gateway");
    c.advance(2s);
  }
  auto [state, reason] = c.front().state().get();
  CHECK(state == node_condition::failed);
  CHECK(reason.find("gateway crashed more than 5 times in a minute") == 0);
}

TEST_CASE("replica: one that cannot start leaves its device and neighbours"
          " alone") {
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

TEST_CASE(
  "P15: a model in quarantine that is unloaded and loaded again is tried"
  " at once") {
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

TEST_CASE("gateway: a model that nobody serves any more makes room for another"
          " when there are as many as may be") {
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

TEST_CASE(
  "router: a slow spell does not keep a free replica from what it can do"
  " in time") {
  virtual_cluster c{1, want(1), ten_ms};
  auto ask = [&](uint64_t id, int64_t rows, microseconds deadline) {
    c.request(id, c.ask(rows), deadline);
    c.advance(1s);
    return c.replies[id][0].status;
  };
  for (uint64_t id = 1; id <= 5; ++id)
    REQUIRE(ask(id, 500, 10s) == ec::ok); // half a second each
  for (uint64_t id = 6; id <= 10; ++id)
    CHECK(ask(id, 1, 50ms) == ec::ok);
}

TEST_CASE("P1: whoever asks a gateway that ends is told so, early or late") {
  virtual_cluster c{1, want(1), ten_ms};
  c.request(1);
  c.drain();
  REQUIRE(c.ask_actor<ack, supervisor_actor>("./supervisor", drain{}));
  c.request(2);
  c.advance(12ms); // the gateway has ended, its node not yet
  c.request(3);
  c.drain();
  CHECK(c.answers() == counts{{ec::ok, 1}, {ec::unavailable, 2}});
}

TEST_CASE("router: a request nobody waits for is not run again") {
  virtual_cluster c{3, want(3), {50ms, 1s, 1ms}};
  c.request(1, c.ask(), 500ms);
  c.advance(600ms);
  CHECK(c.answers() == counts{{ec::deadline_exceeded, 1}});
  c.kill(c.given_to);
  c.advance(10s);
  CHECK(c.executions == 0);
}

TEST_CASE("P7: a node obeys no controller older than its last") {
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
  constexpr uint64_t later = 1'000'000'000; // than this cluster's own
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

TEST_CASE(
  "P10: a request that could never be held is too large, not overload") {
  gateway_config limits;
  limits.max_client_bytes = {8};
  virtual_cluster c{1, want(1), ten_ms, limits};
  c.request(1);
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::too_large, 1}});
}

TEST_CASE("gateway: an id that is open already is refused") {
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
  limits.max_client_bytes = {40}; // an input has 16
  virtual_cluster c{1, want(1), ten_ms, limits};
  for (uint64_t i = 1; i <= 3; ++i)
    c.request(i);
  c.request(4, c.ask(), 10s, "another");
  c.advance(100ms);
  CHECK(c.answers() == counts{{ec::ok, 3}, {ec::overloaded, 1}});
  CHECK(c.replies[3][0].status == ec::overloaded);
  // What was answered makes room again.
  c.request(5);
  c.advance(100ms);
  CHECK(c.replies[5][0].status == ec::ok);
}

TEST_CASE("monitor: tells how busy devices and replicas were") {
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

TEST_CASE("monitor: one that was restarted knows everything again") {
  virtual_cluster c{1, want(1), ten_ms};
  c.crash("w1/monitor");
  c.advance(4s);
  auto x = c.load_of("w1");
  CHECK(x.devices.size() == 1);
  CHECK(x.replicas.size() == 1);
}

TEST_CASE("P20: the same run twice gives the same answers at the same times") {
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
