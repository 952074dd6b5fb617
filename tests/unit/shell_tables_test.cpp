// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "millrace/event_json.hpp"
#include "runtime/nearest.hpp"
#include "shell/tables.hpp"

using namespace millrace;

namespace {

constexpr size_t terminal = 80;

const std::string model = "resnet50-imagenet-int8-batched";
const std::string node = "worker-17.rack-04.example.net";

/// Checks that no line of `text` is wider than the terminal.
void check_width(const std::string& text) {
  REQUIRE_FALSE(text.empty());
  for (auto line : split(text, '\n')) {
    CAPTURE(line);
    CHECK(line.size() <= terminal);
  }
}

/// Checks that each word of a table is in `text`, however it is wrapped.
void check_whole(const table& rows, const std::string& text) {
  for (auto& row : rows)
    for (auto& cell : row)
      for (auto word : split(cell, ' ')) {
        CAPTURE(word);
        CHECK(text.find(word) != std::string::npos);
      }
}

void check_table(const table& rows) {
  auto text = table_text(rows, terminal);
  check_width(text);
  check_whole(rows, text);
}

std::string replica_name(int i) {
  return model + ".12." + std::to_string(100 + i);
}

replica_status replica_of(int i) {
  replica_status out;
  out.what.replica = replica_name(i);
  out.what.model = model;
  out.what.node = node;
  out.what.device = "cuda0";
  out.state = replica_condition::ready;
  out.memory = 1'234'567'890;
  out.load = 12'345ms;
  out.warm_up = 2'345ms;
  out.from = "store:models-of-the-team";
  return out;
}

cluster_status long_named_cluster() {
  cluster_status out;
  out.self.name = "front";
  for (int i = 0; i < 2; ++i) {
    node_status n;
    n.node.name = node + std::to_string(i);
    n.node.roles = {"gateway", "controller", "worker"};
    n.node.incarnation = 1234;
    n.state = node_condition::ready;
    n.uptime = 100h;
    n.devices.resize(1);
    n.devices[0].id = "cuda0";
    n.devices[0].kind = "NVIDIA H200";
    n.replicas = {replica_of(i)};
    node_load load;
    load.process_cpus = 12.3;
    load.resident = 12'345'678'901;
    load.devices = {{"cuda0", 0.87, 1234, 3, 17, 98'765'432'101}};
    load.devices[0].gpu_clock = 1980;
    load.devices[0].gpu_watts = 410;
    replica_usage usage;
    usage.replica = replica_name(i);
    usage.arrivals = 1234;
    usage.waited = usage.served = 0.0123;
    usage.requests_per_second = 12'345;
    load.replicas = {usage};
    out.load[n.node.name] = load;
    out.nodes.push_back(std::move(n));
  }
  lost_member gone;
  gone.node.name = "beta";
  gone.ago = 3min;
  gone.reason = "connection lost";
  out.lost = {gone};
  gone.node.name = "gamma";
  gone.reason = "left";
  out.left = {gone};
  gone.node.name = "delta";
  gone.reason = "not seen since front started";
  out.left.push_back(gone);
  return out;
}

router_queue queue_in_parts() {
  queue_status q;
  q.model = model;
  q.version = 12;
  q.layers = 120;
  q.most = 4096;
  for (int i = 0; i < 2; ++i) {
    served_replica r;
    r.replica = replica_name(i);
    r.credit = 12;
    r.batches = 3;
    r.requests = 345;
    r.unbound = 2;
    auto first = static_cast<uint64_t>(60 * i);
    r.layers = {first, first + 60};
    q.replicas.push_back(r);
  }
  return {node, q};
}

model_list two_models() {
  model_list out;
  out.models.resize(2);
  out.models[0].settings.model = "digits-ensemble";
  out.models[1].settings.model = "digits";
  out.models[0].wanted = 2;
  out.models[0].ready = out.models[0].starting = 1;
  return out;
}

demand_list load_of_digits() {
  demand_list out;
  demand_row row;
  row.model = "digits-ensemble";
  row.arrived = 1000;
  row.rate = 123.4;
  row.latency_p50 = 0.0021;
  row.latency_p99 = 0.0123;
  row.errors = 0.002;
  out.models = {row};
  return out;
}

told_story long_story() {
  told_story out{node, {}};
  auto& x = out.x;
  x.number = 123'456'789;
  x.trace = "order 4711 of the customer with the long name";
  x.tenant = "the-tenant-with-the-long-name";
  x.asked = "application " + model + ", accuracy 0.985 or more, 20 ms or less";
  x.model = model;
  x.version = 12;
  x.status = ec::ok;
  x.replica = replica_name(1);
  x.batch = 32;
  x.attempts = 2;
  x.queue = 12'345us;
  x.execute = 23'456us;
  x.total = 123'456us;
  x.deadline = 1s;
  x.visits = {{replica_name(0), 12'345us, 23'456us, 1'234us, {0, 60}},
              {replica_name(1), 12'345us, 23'456us, 0us, {60, 120}}};
  x.vain = {{{{replica_name(2), 12ms}, {replica_name(3), 13ms}},
             replica_name(3) + " was lost with its node " + node}};
  return out;
}

} // namespace

TEST_CASE(
  "shell: tables of long names fit 80 columns without truncated cells") {
  auto cluster = long_named_cluster();
  check_table(node_table(cluster));
  check_table(device_table(cluster));
  check_table(replica_table(cluster));
  auto models = two_models();
  models.models[1].settings.model = model;
  models.models[1].note = "no node has a bundle of version 'production'; there"
                          " are 1, 2 (default)";
  check_table(model_table(models, load_of_digits()));
  check_table(queue_table({queue_in_parts()}));
  check_table(story_table({long_story()}));
}

TEST_CASE("shell: cold starts with their timeline fit 80 columns") {
  replica_start x;
  x.how = replica_of(1);
  x.how.fetch = 123'456ms;
  x.how.first_answer = 345ms;
  x.order = 123ms;
  x.ready = 140s;
  x.ago = 100h;
  auto rows = start_table({x});
  auto text = table_text(rows, terminal);
  check_width(text);
  check_whole(rows, text);
  CHECK(rows[1].back().find("====") != std::string::npos);
}

TEST_CASE("shell: pipelines of long names fit 80 columns") {
  auto text = pipelines_text({queue_in_parts()}, long_named_cluster(), "", 80);
  check_width(text);
  for (auto* part : {"layers 0 to 59 of 120", "layers 60 to 119 of 120",
                     "1234 batches/s come", "has 345 in 3 batches",
                     "room for 12", "2 cannot go on"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(text.find(replica_name(1)) != std::string::npos);
  CHECK(text.find(node + "1/cuda0") != std::string::npos);
}

TEST_CASE("shell: the story of a request fits 80 columns") {
  auto text = story_text(long_story(), terminal);
  check_width(text);
  for (auto* part :
       {"order 4711", "of tenant      the-tenant-with-the-long-name",
        "asked for      'application resnet50", "in vain", "HELD FOR THE NEXT",
        "time spent in", "12.3 ms"})
    CHECK(text.find(part) != std::string::npos);
}

TEST_CASE(
  "shell: the key line of top fits 80 columns with any hidden columns") {
  for (auto& hidden : {std::set<char>{}, {'m', 'n', 'd', 'r', 'w'}}) {
    auto text = key_line(hidden, terminal);
    check_width(text);
    CHECK(text.find("queues") != std::string::npos);
  }
}

TEST_CASE("shell: the load of a model is shown after its name") {
  auto rows = model_table(two_models(), load_of_digits());
  CHECK(rows[0]
        == std::vector<std::string>{"MODEL", "REQ/S", "P50", "P99", "ERRORS",
                                    "READY", "WANTED", "VERSION", "TRUSTED"});
  CHECK(rows[1]
        == std::vector<std::string>{"digits-ensemble", "123", "2.1ms", "12.3ms",
                                    "0.2%", "1+1", "2", "default", "no"});
  // The other model received no request.
  CHECK(rows[2][1] == "-");
  CHECK(rows[2][3] == "-");
  // One line each at 80 columns.
  auto text = table_text(rows, terminal);
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);
}

TEST_CASE("shell: nodes that left are listed with the time since then") {
  auto x = long_named_cluster();
  CHECK(departures(x)
        == std::vector<std::string>{
          "gamma left 180 s ago",
          "delta is gone: not seen since front started 180 s ago"});
  CHECK(summary(x)
        == "2 nodes, 2 in service, 1 lost, 2 gone, 2 replicas ready");
  auto rows = node_table(x);
  REQUIRE(rows.size() == 6);
  CHECK(rows[3][1] == "lost");
  CHECK(rows[4][1] == "left");
  CHECK(rows[4][4] == "180 s ago");
  CHECK(rows[5][1] == "gone");
  CHECK(no_such_node("gamma", x) == "node gamma left 180 s ago");
}

TEST_CASE("shell: the doctor lists problems first and merges equal ones of "
          "several nodes and sums up the rest") {
  finding good{"clock", verdict::good, "tsc", {}};
  finding notice{"huge pages", verdict::notice, "always", "use madvise"};
  finding bad{"open files", verdict::bad, "1024", "raise the limit"};
  std::map<std::string, examination> nodes{
    {"alpha", {"1.0", {good, notice}}}, {"beta", {"1.0", {good, notice, bad}}}};
  auto text = doctor_text(
    nodes, {{"versions", verdict::good, "the same on all", {}}}, terminal);
  CHECK(text
        == "bad: beta: open files: 1024\n  to do: raise the limit\n"
           "notice: alpha, beta: huge pages: always\n  to do: use madvise\n"
           "good on 2 nodes: clock, versions\n");
  nodes["gamma"] = {"1.0", {{"cores", verdict::bad, "2", "use a larger host"}}};
  CHECK(doctor_text(nodes, {}, terminal).find("good on 3 nodes: clock\n")
        != std::string::npos);
}

TEST_CASE("shell: the nearest name is suggested for a mistyped one") {
  std::vector<std::string> names{"digits", "digits-small", "affine"};
  CHECK(suggestion("digts", names) == " (did you mean 'digits'?)");
  CHECK(suggestion("dgiits", names) == " (did you mean 'digits'?)");
  CHECK(suggestion("digits-smal", names) == " (did you mean 'digits-small'?)");
  CHECK(suggestion("aff", names) == " (did you mean 'affine'?)");
  CHECK(suggestion("bert", names).empty());
  CHECK(suggestion("", names).empty());
  CHECK(suggestion(std::string(1000, 'x'), names).empty());
}

TEST_CASE("shell: the JSON of an event has separate fields") {
  kept_event x{"2026-01-02T03:04:05.678Z", log_level::warning,
               R"(bus.peer_down node=w2 reason="it said \"no\"\n" empty="")"};
  auto y = event_json(x);
  CHECK(y["when"] == "2026-01-02T03:04:05.678Z");
  CHECK(y["level"] == "warning");
  CHECK(y["component"] == "bus");
  CHECK(y["event"] == "peer_down");
  CHECK(y["fields"]
        == json{{"node", "w2"}, {"reason", "it said \"no\"\n"}, {"empty", ""}});
  CHECK_FALSE(y.contains("text"));
  for (auto* text : {"no event", "a.b c", "a.b c=\"open", "a.b c d=e", ""}) {
    CAPTURE(text);
    CHECK(event_json({"", log_level::info, text})["text"] == text);
  }
  CHECK(event_json({"", log_level::info, "node.started"})["fields"]
        == json::object());
}
