// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "models/contention/law.hpp"
#include "models/contention/measured.hpp"

using namespace millrace;

namespace {

using running_batches = std::vector<running_batch>;

/// A batch of a model with one metric measured.
running_batch batch_of(std::string_view model, std::string_view metric = "",
                       double value = 0) {
  return {model, 1, 1, [metric, value](std::string_view name) {
            return name == metric ? value : 0;
          }};
}

running_batches alike(size_t count, std::string_view metric = "",
                      double value = 0) {
  return {count, batch_of("m", metric, value)};
}

contention_settings law_of(contention_kind x) {
  contention_settings out;
  out.model = x;
  return out;
}

double slowdown(const contention_settings& law, const running_batches& all,
                size_t which = 0, uint64_t seed = 0) {
  return make_contention_law(law, seed)->slowdown(all, which);
}

} // namespace

TEST_CASE("contention: law none leaves every number of running batches at 1") {
  for (size_t k = 1; k <= 8; ++k)
    CHECK(slowdown(law_of(contention_kind::none), alike(k)) == 1);
}

TEST_CASE("contention: law linear adds the slowdown once per neighbour") {
  auto law = law_of(contention_kind::linear);
  law.slowdown = 0.25;
  CHECK(slowdown(law, alike(1)) == 1);
  CHECK(slowdown(law, alike(3)) == 1.5);
  CHECK(slowdown(law, alike(5)) == 2);
}

TEST_CASE("contention: law bandwidth with exponent 0 is the interference term "
          "of PALDIA's equation 1") {
  // The digest's vectors, 3.2: batches of 128 rows in 60 ms. 600 requests are
  // 4.6875 batches; their interference term is divided by the 60 ms.
  auto law = law_of(contention_kind::bandwidth);
  struct row {
    double share, seconds;
  };
  for (auto [share, seconds] :
       {row{0.3, 0.084375}, row{0.8, 0.225}, row{1.2, 0.3375}}) {
    auto all = alike(4, "bandwidth_share", share);
    all.push_back(batch_of("m", "bandwidth_share", 0.6875 * share));
    CHECK(0.060 * slowdown(law, all) == doctest::Approx(seconds));
  }
  // Below the whole bandwidth no contention occurs.
  CHECK(slowdown(law, alike(3, "bandwidth_share", 0.3)) == 1);
}

TEST_CASE("contention: law bandwidth grows with the number of running batches "
          "to the exponent") {
  auto law = law_of(contention_kind::bandwidth);
  law.exponent = 1;
  running_batches all{batch_of("a", "bandwidth_share", 0.5),
                      batch_of("b", "bandwidth_share", 0.8),
                      batch_of("a", "bandwidth_share", 0.2)};
  CHECK(slowdown(law, all, 1) == doctest::Approx(4.5));
  all.resize(1);
  CHECK(slowdown(law, all) == 1);
  CHECK(slowdown(law, alike(2)) == 1); // no metric was measured
}

TEST_CASE("contention: law pairwise adds the cost of each neighbour") {
  auto law = law_of(contention_kind::pairwise);
  law.pairs = {{"a+b", 0.3}, {"b+a", 0.1}};
  running_batches all{batch_of("a"), batch_of("b"), batch_of("a")};
  CHECK(slowdown(law, all, 0) == doctest::Approx(1.3));
  CHECK(slowdown(law, all, 1) == doctest::Approx(1.2));
}

TEST_CASE("contention: law power is factor * k^exponent and never below 1") {
  struct row {
    double factor, exponent;
    size_t count;
    double slowdown;
  };
  // The fits of PALDIA's digest, 4.7, and superlinear contention with f = 0.3
  // and p = 1, 3.3.
  const row table[] = {
    {0.289, 1.5, 1, 1},         {0.289, 1.5, 2, 1},   {0.289, 1.5, 3, 1.501688},
    {0.289, 1.5, 4, 2.312},     {0.100, 2, 3, 1},     {0.100, 2, 4, 1.6},
    {0.170, 1.75, 4, 1.923330}, {0.119, 2, 4, 1.904}, {0.3, 2, 2, 1.2},
    {0.3, 2, 3, 2.7},           {1, 0, 7, 1}};
  for (auto& x : table) {
    CAPTURE(x.factor);
    CAPTURE(x.count);
    auto law = law_of(contention_kind::power);
    law.factor = x.factor;
    law.exponent = x.exponent;
    CHECK(slowdown(law, alike(x.count)) == doctest::Approx(x.slowdown));
  }
}

TEST_CASE(
  "contention: law wsm gives the thesis's 8 ms for resnet50 beside alexnet") {
  // Interference framework, 5.4, observation 4: 6.8 ms alone, batches of 4,
  // 36.26 % and 47.07 % of the multiprocessors, so less than all together.
  auto law = law_of(contention_kind::wsm);
  running_batches all{batch_of("resnet50", "wsm_percent", 36.26),
                      batch_of("alexnet", "wsm_percent", 47.07)};
  CHECK(slowdown(law, all, 0) == doctest::Approx(1.178866));
  CHECK(0.0068 * slowdown(law, all, 0) == doctest::Approx(0.008).epsilon(0.01));
  CHECK(slowdown(law, all, 1) == doctest::Approx(1.137788));
  all.pop_back();
  CHECK(slowdown(law, all) == 1);
}

TEST_CASE(
  "contention: law wsm beyond all multiprocessors multiplies by the sum") {
  auto law = law_of(contention_kind::wsm);
  running_batches all{batch_of("bert", "wsm_percent", 96.82),
                      batch_of("gpt2", "wsm_percent", 97.73)};
  CHECK(slowdown(law, all, 0) == doctest::Approx(1.9455 * 1.371374));
  CHECK(slowdown(law, all, 1) == doctest::Approx(1.9455 * 1.367916));
  law.kappa = 0;
  CHECK(slowdown(law, all, 0) == doctest::Approx(1.9455));
}

TEST_CASE("contention: law table has a slowdown per number of running batches "
          "and repeats its last one") {
  auto law = law_of(contention_kind::table);
  CHECK(slowdown(law, alike(3)) == 1); // an empty table
  law.slowdowns = {1, 1.2, 1.9};
  const double expected[] = {1, 1.2, 1.9, 1.9};
  for (size_t k = 1; k <= 4; ++k)
    CHECK(slowdown(law, alike(k)) == expected[k - 1]);
}

TEST_CASE("contention: drawn pairs depend on the seed and both models and not "
          "on the order in which they meet") {
  auto law = law_of(contention_kind::drawn);
  law.extra_min = 0.2;
  law.extra_max = 0.7;
  running_batches a_b{batch_of("a"), batch_of("b")},
    b_a{batch_of("b"), batch_of("a")};
  auto of_a = slowdown(law, a_b, 0, 1), of_b = slowdown(law, a_b, 1, 1);
  CHECK(of_a == slowdown(law, b_a, 1, 1));
  CHECK(of_b == slowdown(law, b_a, 0, 1));
  CHECK(of_a != of_b);
  CHECK(of_a != slowdown(law, a_b, 0, 2));
  running_batches three{batch_of("a"), batch_of("b"), batch_of("b")};
  CHECK(slowdown(law, three, 0, 1) == doctest::Approx(2 * of_a - 1));
}

TEST_CASE("contention: drawn slowdowns are uniform within their bounds") {
  auto law = law_of(contention_kind::drawn);
  law.extra_min = 0.2;
  law.extra_max = 0.7;
  running_batches pair{batch_of("a"), batch_of("b")};
  double sum = 0, least = 9, most = 0;
  constexpr size_t draws = 2000;
  for (uint64_t seed = 0; seed < draws; ++seed) {
    auto x = slowdown(law, pair, 0, seed);
    sum += x;
    least = std::min(least, x);
    most = std::max(most, x);
  }
  CHECK(least >= 1.2);
  CHECK(least < 1.21);
  CHECK(most <= 1.7);
  CHECK(most > 1.69);
  CHECK(sum / draws == doctest::Approx(1.45).epsilon(0.01));
}

TEST_CASE("contention: measured slowdowns are interpolated linearly between "
          "the measured numbers of batches") {
  auto seconds = [](double one_row, double ten_rows) {
    curve out;
    out.add(1, one_row);
    out.add(10, ten_rows);
    return out;
  };
  measured_contention x;
  CHECK_FALSE(x.known());
  x.add(1, seconds(0.010, 0.040));
  CHECK_FALSE(x.known());
  x.add(2, seconds(0.012, 0.060));
  x.add(4, seconds(0.020, 0.160));
  CHECK(x.known());
  CHECK(x.slowdown(1, 1) == 1);
  CHECK(x.slowdown(1, 2) == doctest::Approx(1.2));
  CHECK(x.slowdown(1, 3) == doctest::Approx(1.6));
  CHECK(x.slowdown(10, 4) == doctest::Approx(4));
  CHECK(x.slowdown(10, 5) == doctest::Approx(5.25));
  CHECK(x.slowdown(5.5, 2) == doctest::Approx(0.036 / 0.025));
}
