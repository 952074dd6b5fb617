// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>

#include "tests/support/parts.hpp"

/// \file
/// A model on the disk of w1 only, which the other workers fetch in the chain
/// w1, w2, w3, w4, w5.

namespace millrace::test {

inline constexpr size_t chunks = 12;
inline constexpr size_t receivers = 4;

/// A chunk takes 10 ms over a host's link.
inline constexpr link_speed slow_link{{static_cast<double>(100 * chunk_bytes)},
                                      100us};

inline const std::vector<std::string> all_receivers{"w2", "w3", "w4", "w5"};

class chain_of_four {
public:
  explicit chain_of_four(const std::string& model = "travels")
    : c(receivers + 1, wanted(0, model), ten_ms, {}, slow_link) {
    c.inside().bulk().put_between(
      [this](auto& from, auto& to, auto& what, auto& content) {
        ++came[to][what.chunk];
        ++given[from];
        return damage ? damage(to, what.chunk, content) : content;
      });
    have(c, wanted(receivers + 1, model));
  }

  /// Runs until a host has received n different chunks.
  void until(const std::string& node, size_t n) {
    auto& world = c.inside().world();
    world.run_until(world.now() + 10s, [&] { return came[node].size() >= n; });
    REQUIRE(came[node].size() >= n);
  }

  /// Returns true if a host has the whole model with each byte verified. A host
  /// without a replica may have nothing, unless `need` is set.
  bool has_all(const std::string& node, bool need) {
    auto cache =
      c.ask_actor<cache_status, cache_actor>(node + "/cache", get_cache{}, 5ms);
    REQUIRE(cache);
    for (auto& x : cache->bundles)
      if (x.model.starts_with("travels") || x.state == cache_place::arriving)
        return x.state == cache_place::memory && (x.users > 0 || !need);
    return !need;
  }

  /// The number of chunks that a host received again.
  size_t twice(const std::string& node) const {
    size_t out = 0;
    if (auto i = came.find(node); i != came.end())
      for (auto& [chunk, n] : i->second)
        out += n - 1;
    return out;
  }

  /// Checks that a host has the whole model and received at most `again` chunks
  /// twice.
  void check(const std::string& node, bool need, size_t again) {
    CAPTURE(node);
    CHECK(has_all(node, need));
    CHECK(twice(node) <= again);
  }
  void check_others(const std::string& but, size_t again = 0) {
    for (auto& node : all_receivers)
      if (node != but)
        check(node, true, again);
  }

  void cut(const std::string& a, const std::string& b, bool on) {
    auto& links = c.inside().links();
    auto x = c.node(a).host(), y = c.node(b).host();
    for (auto [from, to] : {std::pair{x, y}, std::pair{y, x}})
      on ? links.cut(from, to) : links.mend(from, to);
  }

  static model_settings wanted(uint64_t replicas, const std::string& model) {
    auto out = want(replicas);
    out.model = model;
    return out;
  }

  std::map<std::string, std::map<size_t, size_t>> came; ///< by receiver, chunk
  std::map<std::string, size_t> given;                  ///< by sender
  std::function<shared_bytes(const std::string& to, size_t chunk,
                             const shared_bytes&)>
    damage;
  virtual_cluster c;
};

} // namespace millrace::test
