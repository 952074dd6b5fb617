// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "config/preset.hpp"
#include "config/scenario.hpp"
#include "runtime/yaml_record.hpp"

using namespace millrace;

namespace {

constexpr auto cluster = R"(
preset: %
hosts:
  - {name: front, roles: [gateway, controller]}
  - name: gpu
    count: 2
    roles: [worker]
    devices: [{kind: a10}, {kind: a10, emulate: {attach: never}}]
bundles:
  m: {layers: 4, execute: {a10: {1: 10ms}}}
models:
  - {model: m, scaling: {policy: arrival_rate}}
workload: [{model: m}]
)";

result<loaded_scenario> read(const std::string& preset,
                             const std::vector<std::string>& set = {}) {
  std::string text = cluster;
  text.replace(text.find('%'), 1, preset);
  return parse_scenario(text, MILLRACE_SOURCE "/config/scenarios/x.yaml", set);
}

} // namespace

TEST_CASE("preset: its values hold where the file has none") {
  auto x = read("flashpoint");
  REQUIRE(x);
  CHECK(x->cluster.placement.policy == "two_stage");
  CHECK(x->spec.models[0].scaling.parts == growth::automatic);
  auto& devices = x->spec.hosts[1].devices;
  CHECK(devices[0].emulate.attach == attach_mode::host);
  CHECK(devices[1].emulate.attach == attach_mode::never); // from the file
  auto y = read("bl");
  REQUIRE(y);
  CHECK(y->cluster.bulk.topology == bulk_topology::stores);
  CHECK(y->cluster.nodes.at("gpu-1").cache.evict == eviction::unused);
}

TEST_CASE(
  "preset: a --set value precedes the preset and may choose the preset") {
  auto x = read("flashpoint", {"placement.policy=pack"});
  REQUIRE(x);
  CHECK(x->cluster.placement.policy == "pack");
  auto y = read("flashpoint", {"preset=bl"});
  REQUIRE(y);
  CHECK(y->cluster.placement.policy == "least_loaded");
}

TEST_CASE("preset: an unknown name is refused with the known names and a wrong "
          "value with the preset") {
  auto x = read("flashpint");
  REQUIRE(!x);
  CHECK(x.failure().text.find("bl, flashpoint, gpu-faas") != std::string::npos);
  CHECK(x.failure().text.find("preset") != std::string::npos);
  yaml_reader reader{"file"};
  scenario out;
  auto y = reader.read("preset: mine", out, {}, [](auto&) {
    return result<std::vector<std::string>>{
      std::vector<std::string>{"bulk.topology=ring"}};
  });
  REQUIRE(!y);
  CHECK(y.failure().text.find("preset mine: bulk.topology") == 0);
}

TEST_CASE("preset: each preset of the project is valid") {
  auto names = preset_names();
  CHECK(names == std::vector<std::string>{"bl", "flashpoint", "gpu-faas"});
  for (auto& name : names) {
    auto x = read(name);
    REQUIRE(x);
    CHECK(!read_preset(name, ".")->about.empty());
  }
}
