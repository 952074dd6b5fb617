// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/policies/select/variant_catalogue.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

constexpr size_t cpu = 0, gpu = 1;

/// An application "x" with a slow cheap and a fast expensive variant, and two
/// workers.
struct two_variants {
  two_variants() {
    all.set_utilisation(0, cpu, 0.6);
    all.set_utilisation(1, cpu, 0.4);
    all.set_utilisation(0, gpu, 0.2);
  }

  std::optional<variant_choice>
  ask(double accuracy = 0, double latency = 0,
      selection_rule by = selection_rule::infaas) const {
    return all.choose({"x", accuracy, latency}, by);
  }

  variant_catalogue all;
  size_t slow = all.add({"x", 0.70, 0.2, 1, 1, cpu});
  size_t fast = all.add({"x", 0.75, 0.02, 5, 3, gpu});
};

double drawn(random_stream& chance) {
  return static_cast<double>(chance.below(5)) / 4; // some are equal
}

} // namespace

TEST_CASE("IN-24: a matching active variant is preferred to a cheaper one "
          "without replicas") {
  two_variants x;
  x.all.set_replica(x.fast, 0, 0.9, false);
  CHECK(x.ask() == variant_choice{x.fast, 0, false});
  x.all.set_replica(x.slow, 1, 0.9, false);
  CHECK(x.ask() == variant_choice{x.slow, 1, false});
  // exactly the requested accuracy
  CHECK(x.ask(0.7) == variant_choice{x.slow, 1, false});
  CHECK(x.ask(0.71) == variant_choice{x.fast, 0, false});
  CHECK(x.ask(0, 0.1) == variant_choice{x.fast, 0, false});
}

TEST_CASE("IN-25: the least loaded worker that runs the variant is chosen") {
  two_variants x;
  x.all.set_replica(x.slow, 0, 0.5, false);
  x.all.set_replica(x.slow, 1, 0.4, false);
  CHECK(x.ask() == variant_choice{x.slow, 1, false});
  x.all.set_replica(x.slow, 1, 0.6, false);
  CHECK(x.ask() == variant_choice{x.slow, 0, false});
}

TEST_CASE("IN-33: rule fit chooses the most loaded active worker") {
  two_variants x;
  x.all.set_replica(x.slow, 0, 0.5, false);
  x.all.set_replica(x.slow, 1, 0.6, false);
  x.all.set_replica(x.slow, 2, 1, true);
  CHECK(x.ask(0, 0, selection_rule::fit) == variant_choice{x.slow, 1, false});
}

TEST_CASE("IN-26, IN-27: without an active match the variant of least loading "
          "time plus latency is loaded on its least used hardware") {
  two_variants x;
  CHECK(x.ask() == variant_choice{x.slow, 1, true});
  CHECK(x.ask(0.72) == variant_choice{x.fast, 0, true});
}

TEST_CASE("IN-28: overloaded and interfered replicas are avoided while another "
          "variant can be used") {
  two_variants x;
  x.all.set_replica(x.slow, 0, 0.1, true);
  x.all.set_replica(x.slow, 1, 0.9, false);
  CHECK(x.ask() == variant_choice{x.slow, 1, false});
  x.all.set_replica(x.slow, 1, 0.9, true);
  CHECK(x.ask() == variant_choice{x.fast, 0, true});
  x.all.set_utilisation(0, gpu, 1);
  CHECK(x.ask() == variant_choice{x.slow, 0, false});
  x.all.remove_replica(x.slow, 0);
  CHECK(x.ask() == variant_choice{x.slow, 1, false});
}

TEST_CASE("IN-29, IN-69: only variants of the application that fit on some "
          "worker are chosen") {
  two_variants x;
  auto other = x.all.add({"y", 0.9, 0.001, 0.1, 0.1, cpu});
  CHECK(x.ask(0.8) == std::nullopt);
  CHECK(x.all.choose({"y", 0.8, 0}, selection_rule::infaas)
        == variant_choice{other, 1, true});
  CHECK(x.all.choose({"z", 0, 0}, selection_rule::infaas) == std::nullopt);
  x.all.set_utilisation(0, gpu, 1);
  CHECK(x.ask(0.72) == std::nullopt);
}

TEST_CASE(
  "IN-15: the index chooses like a scan in 10000 catalogues with changes") {
  size_t found = 0, loads = 0;
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    random_stream chance{seed};
    variant_catalogue all;
    auto variants = 1 + chance.below(12), workers = 1 + chance.below(5);
    auto name = [&] { return std::string(1, "ab"[chance.below(2)]); };
    for (uint64_t i = 0; i < variants; ++i)
      all.add({name(), drawn(chance), drawn(chance), drawn(chance),
               drawn(chance), chance.below(3)});
    for (int step = 0; step < 30; ++step) {
      auto variant = chance.below(variants), worker = chance.below(workers);
      switch (chance.below(4)) {
      case 0:
        all.remove_replica(variant, worker);
        break;
      case 1:
        all.set_utilisation(worker, chance.below(3), drawn(chance));
        break;
      default:
        all.set_replica(variant, worker, drawn(chance), chance.below(2) == 0);
      }
      if (step % 5 != 0)
        continue;
      variant_query query{name(), drawn(chance), drawn(chance),
                          chance.below(2) == 0};
      auto chosen = all.choose(query, selection_rule::infaas);
      CAPTURE(seed);
      REQUIRE(chosen == all.choose(query, selection_rule::brute));
      found += chosen.has_value();
      loads += chosen && chosen->loads;
    }
  }
  CHECK(found > 20'000);
  CHECK(loads > 1'000);
}
