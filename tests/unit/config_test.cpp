// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/node/devices.hpp"
#include "config/config.hpp"
#include "runtime/metrics.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;

namespace {

const std::string good = R"(cluster: test
nodes:
  n1:
    roles: [gateway, controller]
    clients: tcp://127.0.0.1:7100
  n2:
    roles: [worker]
    devices:
      - type: cpu
      - type: emulated
        kind: v100
        emulate: {per_batch: 5ms}
models:
  - model: digits
    replicas: 2
    policy: {batch: 8, drop: never}
)";

std::string refusal(std::string from, const std::string& to) {
  auto text = good;
  text.replace(text.find(from), from.size(), to);
  auto x = parse_config(text, "c.yaml");
  return x ? "accepted" : x.failure().text;
}

} // namespace

TEST_CASE("config: keys that are absent have defaults") {
  auto x = parse_config(good, "c.yaml");
  REQUIRE(x);
  auto& worker = x->nodes.at("n2");
  CHECK(worker.devices[0].id == "cpu0");
  CHECK(worker.devices[1].id == "emulated0");
  CHECK(worker.devices[1].emulate.per_batch == 5ms);
  CHECK(worker.peers == "tcp://127.0.0.1:*");
  CHECK(worker.data == "data/n2");
  CHECK(x->models[0].policy.drop == drop_policy::never);
  CHECK(x->models[0].policy.queue == 4096);
}

TEST_CASE("config: an error names file and line and key") {
  CHECK(refusal("replicas: 2", "replicas: two")
        == "c.yaml:15: models[0].replicas: expected a whole number, found"
           " 'two'");
  CHECK(refusal("roles: [worker]", "roles: [wrker]")
        == "c.yaml:7: nodes.n2.roles[0]: expected one of gateway, controller,"
           " worker, found 'wrker'");
  CHECK(refusal("    devices:", "    device:")
          .find("c.yaml:8: nodes.n2: unknown key 'device' (did you mean"
                " 'devices'?); known here: ")
        == 0);
  CHECK(refusal("5ms", "5 parsecs")
        == "c.yaml:12: nodes.n2.devices[1].emulate.per_batch: '5 parsecs' has"
           " no known unit (expected like 20ms)");
  CHECK(
    refusal("batch: 8", "batch: 0")
    == "c.yaml:16: models[0].policy.batch: expected between 1 and 4096, found"
       " '0'");
  CHECK(refusal("cluster: test", "cluster: [").find("c.yaml:") == 0);
}

TEST_CASE("config: --set replaces a value of the file") {
  auto with = [](const std::string& assignment) {
    return parse_config(good, "c.yaml", {assignment});
  };
  CHECK(with("link.beat=50ms")->link.beat == 50ms);
  CHECK(with("models[0].policy.batch=9")->models[0].policy.batch == 9);
  CHECK(with("nodes.n2.devices[1].kind=m60")->nodes["n2"].devices[1].kind
        == "m60");
  CHECK(with("nodes.n1.roles=[gateway]")->nodes["n1"].roles.size() == 1);
  CHECK(with("models[0].policy.batch=0").failure().text
        == "--set models[0].policy.batch: expected between 1 and 4096, found"
           " '0'");
  CHECK(with("link.beet=1ms").failure().text.find("--set link: unknown key")
        == 0);
  CHECK(with("link").failure().text
        == "--set: expected KEY=VALUE, found 'link'");
  CHECK(with("models[9].replicas=1").failure().text.find("there is no [9]")
        != std::string::npos);
  CHECK(with("models[foo].replicas=1").failure().text.find("there is no [foo]")
        != std::string::npos);
  auto broken = good + "zzz: 1\n";
  CHECK(parse_config(broken, "c.yaml", {"link.beat=50ms"})
          .failure()
          .text.find("c.yaml:17: unknown key 'zzz'")
        == 0);
  CHECK(with("cluster.x=1").failure().text.find("--set 'cluster.x=1': ") == 0);
}

TEST_CASE("config: the reference page equals the declarations") {
  auto page = read_file(MILLRACE_SOURCE "/config/REFERENCE.md", 1 << 20);
  REQUIRE(page);
  INFO("build/bin/millrace node --options prints the table");
  CHECK(page->find(config_reference()) != std::string::npos);
}

TEST_CASE(
  "config: more batches at once than a device has lanes are refused by name") {
  auto with = [](const std::string& more) {
    return refusal("      - type: cpu\n", "      - type: cpu\n" + more);
  };
  CHECK(with("        lanes: 2\n        sharing: {mode: cap, at_once: 2}\n")
        == "accepted");
  CHECK(
    with("        lanes: 2\n        sharing: {mode: cap, at_once: 3}\n")
    == "c.yaml:11: nodes.n2.devices[0].sharing.at_once: found 3, expected at"
       " most 2 (lanes of the device)");
  CHECK(with("        sharing: {mode: wave, at_once: 2}\n")
          .find("found 2, expected at most 1 (lanes of the device)")
        != std::string::npos);
  CHECK(with("        sharing: {mode: time, at_once: 1}\n")
          .find("sharing.at_once: does nothing with time; only with wave, cap")
        != std::string::npos);
  CHECK(with("        sharing: {mode: some}\n")
          .find("sharing.mode: expected one of lanes, time, space, wave, cap,"
                " found 'some'")
        != std::string::npos);
  CHECK(with("        sharing: {per_replica: 1000}\n")
          .find("sharing.per_replica: expected between 0 and 256, found '1000'")
        != std::string::npos);
}

TEST_CASE("config: a key without effect on the type of its device is refused") {
  CHECK(refusal("      - type: emulated\n",
                "      - type: emulated\n        isolation: process\n")
          .find("isolation: does nothing with emulated; only with cpu")
        != std::string::npos);
  CHECK(refusal("        kind: v100\n",
                "        kind: v100\n        process_memory: 1GiB\n")
          .find("process_memory: does nothing with emulated")
        != std::string::npos);
  CHECK(refusal("      - type: cpu\n",
                "      - type: cpu\n        emulate: {per_row: 1ms}\n")
          .find("emulate: does nothing with cpu; only with emulated")
        != std::string::npos);
}

TEST_CASE(
  "config: the settings of a cuda device reach the place of its models") {
  cuda_config x{3, gpu_sharing::mps, false, false, gpu_parameters::host, true};
  auto y = place_of(x);
  CHECK(y.gpu == 3);
  CHECK(y.sharing == gpu_sharing::mps);
  CHECK_FALSE(y.streaming);
  CHECK_FALSE(y.graphs);
  CHECK(y.parameters == gpu_parameters::host);
  CHECK(y.pipelined);
}

TEST_CASE("IF-31: the sharing of a GPU needs a matching isolation") {
  auto refusal_of = [](const std::string& more) {
    return refusal("      - type: cpu\n", "      - type: cuda\n" + more);
  };
  CHECK(refusal_of("        isolation: process\n"
                   "        cuda: {sharing: partitions}\n")
          .find("devices[0].cuda.sharing: found partitions, which needs"
                " isolation: device (or thread) beside it")
        != std::string::npos);
  for (std::string where : {"thread", "device"})
    CHECK(refusal_of("        isolation: " + where
                     + "\n        cuda: {sharing: mps}\n")
            .find("found mps, which needs isolation: process")
          != std::string::npos);
  for (std::string where : {"thread", "device"})
    CHECK(refusal_of("        isolation: " + where
                     + "\n        cuda: {pipelined: true}\n")
            .find("cuda.pipelined: found true beside isolation: " + where
                  + " and cuda.sharing: time, expected isolation: process or"
                    " auto")
          != std::string::npos);
  CHECK(refusal_of("        isolation: thread\n"
                   "        cuda: {sharing: streams, pipelined: true}\n")
          .find("cuda.sharing: streams, expected isolation: device or auto")
        != std::string::npos);
  for (std::string good :
       {"        cuda: {pipelined: true}\n",
        "        isolation: process\n"
        "        cuda: {pipelined: true, sharing: mps}\n",
        "        isolation: device\n"
        "        cuda: {pipelined: true, sharing: streams}\n"})
    CHECK(refusal_of(good) == "accepted");
  CHECK(refusal("      - type: cpu\n",
                "      - type: cpu\n        cuda: {gpu: 1}\n")
          .find("cuda: does nothing with cpu; only with cuda")
        != std::string::npos);
}

TEST_CASE("config: the operator's page lists every metric") {
  auto page = read_file(MILLRACE_SOURCE "/config/OPERATING.md", 1 << 20);
  REQUIRE(page);
  INFO("build/bin/millrace node --metrics prints the table");
  CHECK(page->find(metrics{recording::off}.reference()) != std::string::npos);
}

TEST_CASE("config: the operator's page explains every status") {
  auto page = read_file(MILLRACE_SOURCE "/config/OPERATING.md", 1 << 20);
  REQUIRE(page);
  for (auto x = ec::ok; x <= ec::internal;
       x = static_cast<ec>(static_cast<int>(x) + 1)) {
    INFO(to_string(x));
    CHECK(page->find("\n| `" + std::string{to_string(x)} + "` | ")
          != std::string::npos);
  }
}

TEST_CASE("config: a gateway without an address for clients is refused") {
  CHECK(refusal("    clients: tcp://127.0.0.1:7100\n", "")
          .find("is a gateway without an address for clients")
        != std::string::npos);
}

TEST_CASE("config: a node with the name of a model source is refused") {
  CHECK(refusal("  n1:\n", "  disk:\n")
          .find("nodes.disk: has the name of a model source")
        != std::string::npos);
}

TEST_CASE("config: a cache needs a worker and room for a model") {
  std::string worker = "    roles: [worker]\n";
  CHECK(refusal(worker, worker + "    cache: {memory: 430}\n")
          .find("cache.memory: expected 0 or at least 1 MiB, found 430 B")
        != std::string::npos);
  std::string other = "    roles: [gateway, controller]\n";
  CHECK(refusal(other, other + "    cache: {memory: 1GiB}\n")
          .find("cache: only a worker has a cache")
        != std::string::npos);
}

TEST_CASE(
  "P13: without keys an address that other hosts can reach is refused") {
  for (auto address :
       {"tcp://0.0.0.0:7100", "tcp://*:7100", "tcp://192.168.0.1:7100"}) {
    CAPTURE(address);
    CHECK(refusal("tcp://127.0.0.1:7100", address)
            .find("which other hosts can reach")
          != std::string::npos);
  }
}

TEST_CASE(
  "P13: with keys a node may bind an address that other hosts can reach") {
  for (auto option : {"nodes.n1.clients=tcp://0.0.0.0:7100",
                      "nodes.n1.peers=tcp://192.168.0.1:7200",
                      "nodes.n1.http=0.0.0.0:7191"}) {
    CAPTURE(option);
    CHECK_FALSE(parse_config(good, "c.yaml", {option}));
    CHECK(parse_config(good, "c.yaml", {option, "keys=keys"}));
  }
}

TEST_CASE("P13: with keys a seed must be the address of a known node") {
  auto x =
    parse_config(good, "c.yaml", {"keys=keys", "seeds=[tcp://127.0.0.1:9999]"});
  REQUIRE_FALSE(x);
  CHECK(x.failure().text.find("is not the address of a node")
        != std::string::npos);
  CHECK(parse_config(good, "c.yaml",
                     {"keys=keys", "nodes.n1.advertise=tcp://10.0.0.1:9999",
                      "seeds=[tcp://10.0.0.1:9999]"}));
}

TEST_CASE("config: each tenant has a client address of its own") {
  auto x = parse_config(good, "c.yaml",
                        {"nodes.n1.tenants={acme: tcp://127.0.0.1:7150}"});
  REQUIRE(x);
  auto doors = clients_of(x->nodes.at("n1"));
  REQUIRE(doors.size() == 2);
  CHECK(doors[0].tenant == "default");
  CHECK(doors[1].tenant == "acme");
  CHECK_FALSE(parse_config(good, "c.yaml",
                           {"nodes.n1.tenants={acme: tcp://127.0.0.1:7100}"}));
  CHECK_FALSE(parse_config(
    good, "c.yaml", {"nodes.n1.tenants={default: tcp://127.0.0.1:7150}"}));
}

TEST_CASE("P13: a metrics address that other hosts can reach is refused") {
  auto with = [](const std::string& http) {
    return parse_config(good, "c.yaml", {"nodes.n1.http=" + http});
  };
  CHECK(with("127.0.0.1:7191"));
  CHECK_FALSE(with("0.0.0.0:7191"));
  CHECK_FALSE(with("banana"));
}

TEST_CASE("config: an address that cannot be bound is refused") {
  for (auto address : {"tcp://127.0.0.1:99999", "tcp://127.0.0.1:0",
                       "tcp://127.0.0.1", "tcp://:7100", "7100", "ipc://"}) {
    CAPTURE(address);
    CHECK(refusal("tcp://127.0.0.1:7100", address)
            .find("c.yaml:5: nodes.n1.clients: expected an address like")
          == 0);
  }
  CHECK(refusal("cluster: test", "cluster: test\nseeds: [alpha]")
          .find("c.yaml:2: seeds[0]: expected an address like")
        == 0);
}

TEST_CASE("config: a duplicate address or directory or id is refused") {
  CHECK(refusal("    devices:", "    operators: tcp://127.0.0.1:7100\n"
                                "    devices:")
        == "c.yaml:8: nodes.n2.operators: 'tcp://127.0.0.1:7100' is"
           " nodes.n1.clients already");
  CHECK(refusal("    devices:", "    data: data/n1\n    devices:")
          .find("'data/n1' is nodes.n1.data already")
        != std::string::npos);
  CHECK(refusal("    policy:", "  - model: digits\n    policy:")
        == "c.yaml:16: models[1].model: 'digits' is there twice");
  CHECK(refusal("    kind: v100", "    type: cpu")
        == "c.yaml:11: nodes.n2.devices[1]: 'type' is there twice");
}

TEST_CASE(
  "config: all errors of a document are reported together up to a limit") {
  CHECK(refusal("    devices:", "    operators: tcp://127.0.0.1:7100\n"
                                "    data: data/n1\n"
                                "    devices:")
        == "c.yaml:8: nodes.n2.operators: 'tcp://127.0.0.1:7100' is"
           " nodes.n1.clients already\n"
           "c.yaml:9: nodes.n2.data: 'data/n1' is nodes.n1.data already");
  std::string models = "models:\n";
  for (int i = 0; i < 30; ++i)
    models += "  - model: digits\n";
  auto many = refusal("models:\n", models);
  CHECK(std::count(many.begin(), many.end(), '\n') == 10);
  CHECK(many.ends_with("\nand more"));
}

TEST_CASE("config: cuts that fit no model are refused") {
  struct row {
    const char* says;
    const char* why;
  };
  for (auto [says, why] :
       {row{"cuts: [3, 2]", "cuts: 2 after 3, expected ascending numbers of"},
        row{"cuts: [0]", "cuts: 0 after 0, expected ascending numbers of"},
        row{"cuts: [1, 2, 3]\n    parts: 3",
            "3 cuts for 4 parts, found parts: 3"},
        row{"parts: 2\n    replicas_of_parts: [1, 0]",
            "replicas_of_parts: expected 1 to 10000 of each, found 0"},
        row{"parts: 2\n    replicas_of_parts: [1, 4000000000]",
            "replicas_of_parts: expected 1 to 10000 of each, found 4000000000"},
        row{"parts: 3\n    replicas_of_parts: [1, 2]",
            "replicas_of_parts: has 2 numbers for 3 parts"},
        row{"parts: 2\n    replicas_of_parts: [1, 2]",
            "replicas: 2 beside replicas_of_parts"}}) {
    auto text = "    " + std::string{says} + "\n    policy:";
    CHECK(refusal("    policy:", text.c_str()).find("models[0]: ")
          != std::string::npos);
    CHECK(refusal("    policy:", text.c_str()).find(why) != std::string::npos);
  }
}

TEST_CASE("config: an error in a --set value is reported under --set") {
  auto x =
    parse_config(good, "c.yaml", {"nodes.n1.clients=tcp://0.0.0.0:7100"});
  REQUIRE_FALSE(x);
  CHECK(x.failure().text.find("--set nodes.n1.clients: binds 0.0.0.0") == 0);
  // The prefix n1 of an option does not match n10.
  auto text = good;
  text.replace(text.find("n2:"), 3, "n10:");
  text.replace(text.find("kind: v100"), 10, "id: cpu0");
  auto y = parse_config(text, "c.yaml", {"nodes.n1={roles: [controller]}"});
  REQUIRE_FALSE(y);
  CHECK(y.failure().text.find("c.yaml:11: nodes.n10.devices[1].id") == 0);
}

TEST_CASE("config: two devices of a node with one id are refused") {
  CHECK(refusal("kind: v100", "id: cpu0").find("is there twice")
        != std::string::npos);
}

TEST_CASE("config: the node is chosen by name and may be left out if the file "
          "has only one") {
  auto x = *parse_config(good, "c.yaml");
  CHECK(*choose_node(x, "n2") == "n2");
  CHECK(choose_node(x, "").failure().text
        == "the config has several nodes (n1, n2); select one with --node");
  CHECK(choose_node(x, "n3").failure().text
        == "no node 'n3' in the config; it has n1, n2");
  x.nodes.erase("n1");
  CHECK(*choose_node(x, "") == "n2");
}

TEST_CASE("config: directories are relative to the folder of the file") {
  test::temporary_directory dir;
  REQUIRE(write_file(dir / "c.yaml", std::as_bytes(std::span{good})));
  auto x = load_config(dir / "c.yaml");
  REQUIRE(x);
  CHECK(x->nodes.at("n1").data == dir / "data/n1");
}
