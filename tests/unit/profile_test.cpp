// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/partition/profile_remarks.hpp"
#include "models/profile_book.hpp"
#include "runtime/bytes.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("profile: times are linear between measured batches and extrapolated "
          "beyond them") {
  profile p;
  p.points.push_back({"cpu", 1, {}, {{"execute_seconds", 1}}});
  p.points.push_back({"cpu", 5, {}, {{"execute_seconds", 3}}});
  auto seconds_at = [&](double batch) {
    return curve_of(p, "execute_seconds", "cpu").at(batch);
  };
  CHECK(seconds_at(0.5) == doctest::Approx(1));
  CHECK(seconds_at(1) == doctest::Approx(1));
  CHECK(seconds_at(3) == doctest::Approx(2));
  CHECK(seconds_at(9) == doctest::Approx(5));
  CHECK(curve_of(p, "execute_seconds", "v100").empty());
  CHECK(curve_of(p, "memory_bytes", "cpu").empty());
}

TEST_CASE("profile: with one measured size each row takes the same time in "
          "parts as in the whole") {
  profile p;
  p.points.push_back(
    {"d", 2, {}, {{"execute_seconds", 6}, {"load_seconds", 9}}});
  for (double i = 0; i < 3; ++i)
    p.points.push_back({"d", 2, {{"layer", i}}, {{"execute_seconds", 2}}});
  auto of = [&](size_t first, size_t last, size_t layers = 3) {
    return curve_of_layers(p, "execute_seconds", "d", first, last, layers);
  };
  for (double rows : {2, 4, 64}) {
    CHECK(of(0, 3).at(rows) == doctest::Approx(3 * rows));
    CHECK(of(0, 1).at(rows) + of(1, 3).at(rows)
          == doctest::Approx(of(0, 3).at(rows)));
  }
  CHECK(curve_of(p, "load_seconds", "d").at(64) == 9);
  // A bundle of other layers: times are proportional to the share of layers.
  CHECK(of(0, 1, 6).at(2) == doctest::Approx(1));
  CHECK(of(1, 2, 2).at(2) == doctest::Approx(3));
}

TEST_CASE("profile: a file of one profile and a file of several are read") {
  temporary_directory dir;
  auto read = [&](const std::string& text) {
    auto path = dir.path() + "/p.yaml";
    REQUIRE(write_file(path, std::as_bytes(std::span{text})));
    auto x = read_profile(path, "m");
    return x ? x->model + " " + std::to_string(x->points.size())
             : x.failure().text.substr(path.size());
  };
  std::string point = "{device: d, metrics: {execute_seconds: 1}}";
  CHECK(read("points: [" + point + "]") == "m 1");
  CHECK(read("models: [{model: m, points: [" + point + ", " + point + "]}]")
        == "m 2");
  CHECK(read("models: [{model: n, points: [" + point + "]}]")
        == ": no model 'm'; there is n");
  CHECK(read("points: []")
        == ": the profile of 'm' has 0 points, expected 1 to 100000");
  CHECK(read("points: [{device: d, batch: -1}]")
        == ": the profile of 'm', points[0]: batch: -1, expected more than 0");
  CHECK(
    read("points: [{device: d, dimensions: {layer: 0.5}}]")
    == ": the profile of 'm', points[0]: layer: 0.5, expected a whole number"
       " from 0 to 127");
  CHECK(
    read("points: [{device: d, metrics: {load_seconds: -2}}]")
    == ": the profile of 'm', points[0]: load_seconds: -2, expected a number"
       " from 0 on");
}

namespace {

/// The profile of a model on one kind of device. A whole run takes `seconds`.
profile of_layers(const std::string& model, const std::string& layers,
                  const std::string& device, double seconds) {
  return {model, {{device, 1, {}, {{"execute_seconds", seconds}}}}, layers, {}};
}

} // namespace

TEST_CASE("profile_book: a model is found by its layers or else by measured "
          "layers or else by name") {
  profile_book book{
    {of_layers("m", "aaa1", "cpu", 1), of_layers("m", "aab2", "cpu", 2),
     of_layers("m", "", "cpu", 3), of_layers("m", "", "v100", 4),
     of_layers("n", "ccc3", "cpu", 5), of_layers("n", "", "cpu", 6)}};
  auto seconds = [&](const std::string& model, const std::string& layers,
                     const std::string& device) {
    auto x = book.find(model, layers);
    REQUIRE(x);
    return curve_of(*x, "execute_seconds", device).at(1);
  };
  CHECK(seconds("m", "aaa1", "cpu") == 1);
  CHECK(seconds("m", "aab", "cpu") == 2);
  CHECK(seconds("m", "aab", "v100") == 4);
  CHECK(seconds("n", "", "cpu") == 5);
  CHECK(seconds("n", "zzz", "cpu") == 5);
  for (auto unclear : {"", "aa", "zzz"})
    CHECK(book.find("m", unclear).failure().text
          == "model 'm' has two kinds of layers on 'cpu', aaa1 and aab2;"
             " expected a choice of one");
  CHECK(book.find("o").failure().text == "no model 'o'; there is m, n");
  auto nothing = profile_book{{{"o", {}, {}, {}}}}.find("o");
  REQUIRE(nothing); // a simulated model without times
  CHECK(nothing->points.empty());
  CHECK(book.tells("execute_seconds", "v100"));
  CHECK_FALSE(book.tells("load_seconds", "v100"));
}

TEST_CASE("profile: of a file with two kinds of layers one is chosen") {
  temporary_directory dir;
  auto path = dir.path() + "/p.yaml";
  auto text = print_profiles(
    {of_layers("m", "aaa1", "cpu", 1), of_layers("m", "bbb2", "cpu", 2)});
  REQUIRE(write_file(path, std::as_bytes(std::span{text})));
  CHECK_FALSE(read_profile(path, "m"));
  auto x = read_profile(path, "m", "bbb2");
  REQUIRE(x);
  CHECK(x->points.at(0).metrics.at("execute_seconds") == 2);
  CHECK(read_profile(path, "m", "c").failure().text
        == path + ": no layers 'c' of model 'm'; there is aaa1, bbb2");
}

TEST_CASE("profile: remarks name each anomaly and a normal profile has none") {
  profile p{"m", {}};
  auto add = [&](std::map<std::string, double> dimensions,
                 std::map<std::string, double> metrics) {
    p.points.push_back({"d", 1, std::move(dimensions), std::move(metrics)});
  };
  auto remarks = [&] {
    std::string out;
    for (auto& x : remarks_on(p))
      out += x + "\n";
    return out;
  };
  auto says = [&](const std::string& part) {
    return remarks().find(part) != std::string::npos;
  };
  add({}, {{"execute_seconds", 3}, {"load_seconds", 1}});
  CHECK(remarks() == "");
  SUBCASE("a metric that no code reads") {
    add({}, {{"execute_secs", 3}});
    CHECK(says("nothing reads 'execute_secs'"));
  }
  SUBCASE("a duplicate value") {
    add({}, {{"execute_seconds", 4}});
    CHECK(says("execute_seconds on 'd' with batch 1 is there twice; the first"
               " counts"));
  }
  SUBCASE("layers without bytes") {
    add({{"layer", 0}}, {{"execute_seconds", 1}, {"parameter_bytes", 9}});
    add({{"layer", 1}}, {{"execute_seconds", 2}});
    CHECK(remarks()
          == "without output_bytes on 'd' plans count transfers between parts"
             " as 0\n");
  }
  SUBCASE("layers that take far less than the whole") {
    add({{"layer", 0}},
        {{"execute_seconds", 1}, {"parameter_bytes", 9}, {"output_bytes", 9}});
    CHECK(says("its layers take 1 s of the 3 s that all take on 'd'"));
  }
  SUBCASE("a device without execution times") {
    p.points.push_back({"e", 1, {}, {{"load_seconds", 1}}});
    CHECK(says("without execute_seconds on 'e'"));
  }
}

TEST_CASE("profile: a small number is also valid in YAML 1.1") {
  profile p{"m", {{"d", 1, {}, {{"execute_seconds", 7e-5}}}}};
  CHECK(print_profiles({p}).find("7.0e-05") != std::string::npos);
}
