// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "config/scenario.hpp"

using namespace millrace;

namespace {

/// A scenario with one pool. `text` is appended to its hosts.
result<loaded_scenario> read_pools(const std::string& text) {
  return parse_scenario(
    "hosts:\n"
    "  - {name: front, roles: [gateway, controller]}\n"
    "  - {name: base, roles: [worker]}\n"
    "  - {name: extra, count: 2, roles: [worker], pool: p, price: 2}\n"
      + text,
    "s.yaml");
}

std::string why_refused(const std::string& text) {
  auto x = read_pools(text);
  return x ? "" : x.failure().text;
}

const std::string owner = "scopes: {cluster: {pool: p}}\n";

} // namespace

TEST_CASE("pools: the hosts of a pool are its machines at their price") {
  auto x = read_pools("pools: {p: {boot: 4s}}\n" + owner);
  REQUIRE(x);
  auto& pool = x->cluster.pools.at("p");
  CHECK(pool.machines == std::vector<std::string>{"extra-1", "extra-2"});
  CHECK(pool.settings.most == 2);
  CHECK(pool.settings.price == 2);
  CHECK(pool.type == "extra");
  CHECK(x->cluster.pool_of("extra-1") == &pool);
  CHECK(x->cluster.pool_of("base") == nullptr);
  x = read_pools("pools: {p: {price: 5}}\n" + owner);
  REQUIRE(x);
  CHECK(x->price.at("extra-2") == 5);
}

TEST_CASE("pools: errors name the key and the finding and the remedy") {
  CHECK(why_refused(owner)
        == "s.yaml:4: hosts[2].pool: there is no pool 'p' (expected it under"
           " 'pools')\n"
           "s.yaml:5: scopes.cluster.pool: there is no pool 'p' (expected it"
           " under 'pools')");
  CHECK(why_refused("pools: {p: {}}\n")
        == "s.yaml:5: pools.p: no scope owns it, so nothing requests its"
           " machines (expected scopes.NAME.pool: p)");
  CHECK(why_refused("pools: {p: {}, q: {}}\n" + owner)
        == "s.yaml:5: pools.q: no hosts belong to it (expected hosts[].pool:"
           " q)");
  CHECK(why_refused("pools: {p: {most: 3}}\n" + owner)
        == "s.yaml:5: pools.p.most: is 3, and the hosts 'extra' are 2");
  CHECK(why_refused("pools: {p: {least: 3}}\n" + owner)
        == "s.yaml:5: pools.p.least: is 3, and there are at most 2 machines");
  CHECK(why_refused("pools: {p: {}}\n"
                    "scopes: {cluster: {pool: p}, pool/x: {pool: p}}\n")
        == "s.yaml:6: scopes.pool/x.pool: pool 'p' belongs to scope cluster"
           " already (expected one owner)");
}

TEST_CASE("pools: hosts of a pool are workers of one group") {
  auto text =
    why_refused("  - {name: other, roles: [worker, gateway], pool: p}\n"
                "pools: {p: {}}\n"
                + owner);
  CHECK(
    text.find("hosts[3].pool: hosts of a pool start and stop (expected roles:"
              " [worker])")
    != std::string::npos);
  CHECK(text.find("pool 'p' has the hosts 'extra' already")
        != std::string::npos);
}

TEST_CASE("pools: a pool in a live cluster is refused") {
  auto x = parse_config("nodes:\n"
                        "  a: {roles: [gateway, controller], clients:"
                        " 'tcp://127.0.0.1:*'}\n"
                        "scopes: {cluster: {pool: p}}\n",
                        "c.yaml");
  REQUIRE(!x);
  CHECK(x.failure().text
        == "c.yaml:3: scopes.cluster.pool: there is no pool 'p': machines are"
           " simulated only (expected no pool here, or a scenario with"
           " 'pools')");
}
