// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/parts.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("QU-03: a model in parts gives the same outputs as the whole model"
          " through one replica of each part") {
  for (uint64_t parts : {2, 3, 4}) {
    CAPTURE(parts);
    virtual_cluster c{4, in_parts(parts), ten_ms};
    send(c, 1, 1);
    c.advance(9ms);
    CHECK(c.replies.empty());
    c.advance(2ms);
    REQUIRE(c.replies.contains(1));
    CHECK(all_are_right(c));
    CHECK(c.replies[1][0].execute >= 10ms - 10us); // both times are rounded
    CHECK(c.replies[1][0].execute <= 10ms + 10us);
    CHECK(c.executed_on.size() == parts);
  }
}

TEST_CASE("FP-21: stages run consecutive requests at the same time") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  send(c, 1, 100);
  c.advance(100 * 5ms);
  CHECK(c.answers() == counts{{ec::ok, 99}});
  c.advance(6ms);
  CHECK(c.answers() == counts{{ec::ok, 100}});
  CHECK(all_are_right(c));
  CHECK(c.executed_on
        == std::map<std::string, size_t>{{"w1", 100}, {"w2", 100}});
}

TEST_CASE("QU-02: a request visits each stage once in order") {
  virtual_cluster c{3, in_parts(3), ten_ms};
  send(c, 1, 30);
  c.advance(1s);
  for (auto& [node, n] : c.executed_on)
    CHECK(n == 30);
  auto stories =
    c.ask_actor<request_list, gateway_actor>("./gateway", get_requests{});
  REQUIRE(stories);
  REQUIRE_FALSE(stories->requests.empty()); // the slowest are stored
  auto begins = first_layers(c, 3);
  REQUIRE(begins.size() == 3);
  for (auto& x : stories->requests) {
    std::vector<uint64_t> firsts;
    auto before = x.queue; // wait for the first stage
    microseconds executed{0};
    for (auto& visit : x.visits) {
      firsts.push_back(begins.at(visit.replica));
      before -= visit.queue + visit.held;
      executed += visit.execute;
    }
    CHECK(firsts == std::vector<uint64_t>{0, 4, 8});
    CHECK(x.visits.back().replica == x.replica);
    CHECK(x.visits.back().held == 0us);
    CHECK(executed == x.execute);
    CHECK(before > 10ms); // the slowest of 30 requests at 3.3 ms each
  }
  CHECK(all_are_right(c));
}

TEST_CASE("pipelines: a batch stays together through all stages and each"
          " request gets its own rows") {
  auto wanted = in_parts(3);
  wanted.policy.batch = 64;
  virtual_cluster c{3, wanted, ten_ms};
  c.request(1, c.ask(3));
  send(c, 2, 40);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 40}});
  CHECK(c.replies[1][0].outputs[0].value.extents == shape{3, 16});
  c.replies.erase(1);
  CHECK(all_are_right(c));
  CHECK(c.replies[40][0].batch > 1);
}

TEST_CASE("FP-22: a stage gets at most overlap batches beside its running one"
          " until the next stage takes its output") {
  for (uint64_t overlap : {0, 1, 3}) {
    CAPTURE(overlap);
    auto wanted = in_parts(2);
    wanted.policy.overlap = overlap;
    virtual_cluster c{2, wanted, ten_ms};
    auto nodes = nodes_of(c, 2);
    REQUIRE(nodes.size() == 2);
    c.node(nodes[1]).pause();
    send(c, 1, 20);
    c.advance(100ms);
    auto q = queue_of(c);
    CHECK(q.running == 1 + overlap); // the second stage accepted no batch
    CHECK(q.waiting == 20 - q.running);
    CHECK(c.executed_on[nodes[0]] == q.running);
    c.node(nodes[1]).resume();
    c.advance(1s);
    CHECK(c.answers() == counts{{ec::ok, 20}});
    CHECK(all_are_right(c));
  }
}

TEST_CASE("QU-04: the transfer of an output to the next stage overlaps the next"
          " run of the stage") {
  auto wanted = in_parts(2);
  wanted.policy.batch = 4096;
  wanted.policy.overlap = 4;
  virtual_cluster c{2, wanted, emulation{50ms, 40ms, 0us}, {}, {{8e6}, 10us}};
  auto serve = [&](uint64_t requests) {
    auto begun = c.inside().world().now();
    c.replies.clear();
    for (uint64_t id = 1; id <= requests; ++id)
      c.request(id, c.ask(4096));
    while (c.replies.size() < requests && c.inside().world().now() - begun < 5s)
      c.advance(1ms);
    CHECK(c.answers() == counts{{ec::ok, requests}});
    return to_us(c.inside().world().now() - begun);
  };
  // One request alone: two runs of 20 ms and three transfers.
  auto alone = serve(1);
  auto moved = (alone - 40ms) / 3;
  CHECK(moved > 15ms);
  auto many = serve(50);
  CHECK(many < 50 * (std::max<microseconds>(moved, 20ms) + 5ms) + alone);
}

TEST_CASE("QU-05: a stage has a queue and runs one request at a time without"
          " batching") {
  auto wanted = in_parts(2);
  wanted.cuts = {2}; // the second part takes five times as long
  wanted.policy.overlap = 3;
  virtual_cluster c{2, wanted, ten_ms};
  send(c, 1, 60);
  c.advance(250ms);
  for (auto& r : queue_of(c).replicas)
    if (r.layers.first == 2)
      CHECK(r.requests == 4); // one running and three waiting requests
  c.advance(1s);
  for (auto& [id, x] : c.replies)
    CHECK(x.at(0).batch == 1);
  wanted.policy.batch = 64;
  have(c, wanted);
  c.advance(3s);
  c.replies.clear();
  send(c, 101, 140);
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 40}});
  CHECK(c.replies[140][0].batch > 1);
}

TEST_CASE("QU-06: arrivals and waits and service of each stage are reported for"
          " each second") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  auto nodes = nodes_of(c, 2);
  REQUIRE(nodes.size() == 2);
  auto stage = [&](size_t i) { return c.load_of(nodes[i]).replicas.at(0); };
  uint64_t sent = 0;
  auto serve = [&](uint64_t at_once, microseconds period) {
    for (auto t = 0us; t < 3s; t += period) {
      send(c, sent + 1, sent + at_once);
      sent += at_once;
      c.advance(period);
    }
  };
  serve(1, 20ms);
  for (size_t i = 0; i < 2; ++i) {
    auto x = stage(i);
    CHECK(x.arrivals == doctest::Approx(50).epsilon(0.05));
    CHECK(x.arrival_cv < 0.05);
    CHECK(x.served == doctest::Approx(0.005).epsilon(0.01));
    CHECK(x.service_cv < 0.01);
    CHECK(x.waited < 10e-6);
  }
  // Of two requests at once, one waits 0 ms and one 5 ms for the first stage.
  // They reach the second stage 5 ms apart.
  serve(2, 40ms);
  auto first = stage(0), second = stage(1);
  CHECK(first.arrivals == doctest::Approx(50).epsilon(0.05));
  CHECK(first.arrival_cv == doctest::Approx(1).epsilon(0.05));
  CHECK(first.waited == doctest::Approx(0.0025).epsilon(0.05));
  CHECK(first.queue == doctest::Approx(0.125).epsilon(0.05));
  CHECK(second.arrival_cv == doctest::Approx(0.75).epsilon(0.05));
  CHECK(second.waited < 10e-6);
}

TEST_CASE("QU-01, QU-07: each part has its own number of replicas and four"
          " replicas have four times the throughput of one") {
  auto wanted = in_parts(2);
  wanted.cuts = {2}; // one sixth of the model, and the rest
  wanted.replicas_of_parts = {1, 4};
  virtual_cluster c{5, wanted, ten_ms};
  send(c, 1, 600);
  c.advance(1s);
  auto n = static_cast<double>(c.replies.size()); // 4 / (10 ms * 10 / 12)
  CHECK(n == doctest::Approx(480).epsilon(0.05));
  c.advance(1s);
  CHECK(all_are_right(c));
  CHECK(c.replies.size() == 600);
  CHECK(c.executed_on.size() == 5);
}

TEST_CASE("FP-19, FP-20: parts load at the same time and serve when the last"
          " part is ready") {
  auto wanted = in_parts(2, 0);
  wanted.cuts = {3};
  virtual_cluster c{2, wanted, emulation{120ms, 0us, 0us}};
  wanted.replicas = 1;
  have(c, wanted);
  auto begun = c.inside().world().now();
  c.advance(60ms); // the smaller part is ready
  c.request(1, marked(c, 1));
  while (c.replies[1].empty() && c.inside().world().now() - begun < 1s)
    c.advance(1ms);
  auto took = c.inside().world().now() - begun;
  CHECK(c.answers() == counts{{ec::ok, 1}});
  CHECK(took >= 90ms); // load time of the larger part
  CHECK(took < 115ms); // less than two loads in sequence
}

TEST_CASE("P3: started batches of a lost stage run again on another replica and"
          " batches not yet started run once") {
  virtual_cluster c{6, in_parts(3, 2), ten_ms};
  send(c, 1, 200);
  c.advance(100ms);
  c.kill("w3");
  c.advance(3s);
  CHECK(c.answers() == counts{{ec::ok, 200}});
  CHECK(all_are_right(c));
  // At most the batches of one of six replicas run again: one running, one
  // waiting.
  CHECK(c.executions >= 200);
  CHECK(c.executions <= 202);
}

TEST_CASE("P3: a batch for a lost stage is forwarded to another replica of its"
          " part") {
  virtual_cluster c{4, in_parts(2, 2), ten_ms};
  send(c, 1, 200); // running in part 1, bound to part 2
  c.advance(101ms);
  c.kill(nodes_of(c, 4).at(1));
  c.advance(2s); // far less than their deadline
  CHECK(c.answers() == counts{{ec::ok, 200}});
  CHECK(all_are_right(c));
}

TEST_CASE("P3: a batch in transit to a stage with an ended process is answered"
          " once and its credit returns") {
  for (auto at = 100ms; at < 105ms; at += 1ms) { // a batch takes 5 ms per stage
    CAPTURE(at.count());
    virtual_cluster c{4, in_parts(2, 2), ten_ms, {}, {{0}, 700us}};
    std::string lost; // a replica of the last part
    auto credits = [&] {
      uint64_t n = 0;
      for (auto& r : queue_of(c).replicas)
        r.layers.first == 0 ? void(n += r.credit) : void(lost = r.replica);
      return n;
    };
    auto all = credits();
    REQUIRE(all == 4);
    send(c, 1, 100);
    c.advance(at);
    tell_replica(c, lost, stage_lost{0, "test"});
    c.advance(3s);
    CHECK(c.answers() == counts{{ec::ok, 100}});
    CHECK(all_are_right(c));
    CHECK(queue_of(c).running == 0);
    CHECK(credits() == all);
  }
}

TEST_CASE("P3: a draining stage with an ended process gets no more batches") {
  virtual_cluster c{4, in_parts(2, 2), ten_ms};
  send(c, 1, 100);
  c.advance(101ms); // running in part 1, bound to part 2
  auto one_of_the_last = [&] {
    for (auto& r : queue_of(c).replicas)
      if (r.layers.first > 0)
        return r;
    return served_replica{};
  };
  auto it = one_of_the_last();
  tell_replica(c, it.replica, finish{});
  auto node = tell_replica(c, it.replica, stage_lost{0, "test"});
  auto before = c.executed_on[node];
  it = one_of_the_last();
  REQUIRE(it.draining);
  c.advance(40ms); // a new replica takes longer to load
  CHECK(c.executed_on[node] - before <= it.batches); // the batches it had
  c.advance(3s);
  CHECK(c.answers() == counts{{ec::ok, 100}});
  CHECK(all_are_right(c));
}

TEST_CASE("P3: requests wait for the next replica when the only replica of a"
          " part is lost") {
  virtual_cluster c{4, in_parts(3), ten_ms};
  auto nodes = nodes_of(c, 4);
  REQUIRE(nodes.size() == 3);
  send(c, 1, 50);
  c.advance(20ms);
  SUBCASE("the first part") {
    c.kill(nodes[0]);
  }
  SUBCASE("the middle part") {
    c.kill(nodes[1]);
  }
  SUBCASE("the last part") {
    c.kill(nodes[2]);
  }
  c.advance(9s);
  CHECK(c.answers() == counts{{ec::ok, 50}});
  CHECK(all_are_right(c));
}

TEST_CASE("P3: a batch between two parts runs on a whole replica when the next"
          " part does not return") {
  virtual_cluster c{3, in_parts(2), ten_ms};
  auto nodes = nodes_of(c, 3);
  REQUIRE(nodes.size() == 2);
  send(c, 1, 10);
  c.advance(22ms);
  have(c, in_parts(1));
  c.kill(nodes[1]);
  c.advance(2s); // far less than their deadline
  CHECK(c.answers() == counts{{ec::ok, 10}});
  CHECK(all_are_right(c));
}

TEST_CASE("gateway: a version with missing parts gets no requests while another"
          " version can answer") {
  auto wanted = in_parts(2);
  wanted.version = "1";
  virtual_cluster c{4, wanted, {5s, 9ms, 1ms}};
  c.advance(5s);
  wanted.version = "2";
  wanted.cuts = {1}; // one part is ready long before the other
  have(c, wanted);
  for (uint64_t id = 1; id <= 60; ++id) {
    send(c, id, id);
    c.advance(100ms);
  }
  c.advance(1s);
  CHECK(c.answers() == counts{{ec::ok, 60}});
  CHECK(all_are_right(c));
  CHECK(c.replies[1][0].version == 1);
  CHECK(c.replies[20][0].version == 1); // the first part takes 0.4 s to load
  CHECK(c.replies[60][0].version == 2);
}

TEST_CASE("FP-64: whole replicas and parts serve one queue without a lost or"
          " repeated request") {
  virtual_cluster c{3, in_parts(2), ten_ms};
  auto whole = in_parts(1);
  uint64_t id = 0;
  auto serve_while = [&](const model_settings& x) {
    have(c, x);
    for (int i = 0; i < 200; ++i) {
      ++id;
      c.request(id, marked(c, id));
      c.advance(6ms);
    }
  };
  serve_while(whole);
  serve_while(in_parts(3));
  serve_while(in_parts(2));
  c.advance(2s);
  CHECK(c.answers() == counts{{ec::ok, id}});
  CHECK(all_are_right(c));
  CHECK(c.executions == id);
}

TEST_CASE("P16: a draining part runs the batches bound to it before it ends") {
  virtual_cluster c{2, in_parts(2), ten_ms};
  auto nodes = nodes_of(c, 2);
  REQUIRE(nodes.size() == 2);
  send(c, 1, 1);
  c.advance(2ms); // the first part runs, the second is idle
  REQUIRE(c.ask_actor<ack, supervisor_actor>(nodes[1] + "/supervisor",
                                             millrace::drain{}));
  c.advance(20ms); // no other replica could be ready so soon
  CHECK(c.answers() == counts{{ec::ok, 1}});
}

TEST_CASE("pipelines: a request for a model that cannot be cut as configured is"
          " answered with the reason") {
  virtual_cluster c{2, in_parts(13), ten_ms};
  c.request(1, marked(c, 1));
  c.advance(10ms);
  REQUIRE(c.replies.contains(1));
  CHECK(c.replies[1][0].status == ec::unavailable);
  CHECK(c.replies[1][0].error
        == "no replica of model 'm' can be started: it has 12 layers, and"
           " cannot be cut into 13 parts");
}

TEST_CASE("pipelines: a model that cannot be cut as configured is listed with"
          " the reason") {
  auto wanted = in_parts(2);
  virtual_cluster c{2, wanted, ten_ms};
  auto note = [&] {
    c.advance(100ms);
    return c
      .ask_actor<model_list, placement_actor>("./placement", get_models{})
      ->models[0]
      .note;
  };
  CHECK(note().empty());
  wanted.parts = 13;
  have(c, wanted);
  CHECK(note() == "it has 12 layers, and cannot be cut into 13 parts");
  auto refusal = [&] {
    return c
      .ask_actor<ack, registry_actor>("./registry",
                                      set_model{wanted, false, {}})
      .failure()
      .text;
  };
  wanted.parts = 1;
  wanted.cuts = {5, 5};
  CHECK(refusal()
        == "cuts: 5 after 5, expected ascending numbers of layers from 1 on");
  wanted.parts = 2;
  CHECK(refusal() == "2 cuts for 3 parts, found parts: 2");
  wanted.parts = 3;
  wanted.cuts = {5, 6};
  wanted.replicas_of_parts = {1, 2};
  CHECK(refusal() == "replicas_of_parts: has 2 numbers for 3 parts");
}
