// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "transport/membership.hpp"

using namespace millrace;

namespace {

const timestamp joined_at{1h};

member node_called(const std::string& name) {
  member out;
  out.name = name;
  return out;
}

/// A node linked with node b.
struct linked_node {
  linked_node() { all.up(node_called("b")); }

  void down(bool left, timestamp when) {
    all.down({node_called("b"), left ? "left" : "silent", left, false}, when);
  }

  membership all{nullptr};
};

} // namespace

TEST_CASE("membership: a node that left is listed with the time since then "
          "until it is back") {
  linked_node x;
  x.down(true, joined_at);
  auto list = x.all.list(joined_at + 3s);
  CHECK(list.peers.empty());
  CHECK(list.lost.empty());
  REQUIRE(list.left.size() == 1);
  CHECK(list.left[0].node.name == "b");
  CHECK(list.left[0].reason == "left");
  CHECK(list.left[0].ago == 3s);
  x.all.up(node_called("b"));
  CHECK(x.all.list(joined_at + 4s).left.empty());
}

TEST_CASE("membership: a node whose goodbye arrives after its connection ended "
          "has left and is not lost") {
  linked_node x;
  x.down(false, joined_at);
  CHECK(x.all.list(joined_at).lost.size() == 1);
  x.down(true, joined_at + 1s);
  CHECK(x.all.list(joined_at + 1s).lost.empty());
  CHECK(x.all.list(joined_at + 1s).left.size() == 1);
}

TEST_CASE(
  "membership: a node that was never linked is neither lost nor has it left") {
  membership all{nullptr};
  for (auto left : {false, true})
    all.down({node_called("c"), "left", left, false}, joined_at);
  CHECK(all.list(joined_at).lost.empty());
  CHECK(all.list(joined_at).left.empty());
}
