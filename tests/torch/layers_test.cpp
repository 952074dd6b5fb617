// SPDX-License-Identifier: Apache-2.0

/// \file
/// Models that their import cuts into layers.

#include <doctest/doctest.h>

#include "models/confined/confined_backend.hpp"
#include "models/crossing.hpp"
#include "models/import/import.hpp"
#include "models/import/verification.hpp"
#include "runtime/text.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

std::shared_ptr<backend> trusted() {
  auto x = torch_backend(code_trust::full);
  REQUIRE(x);
  return *x;
}

/// Imports a model of the tests. It is cut into the smallest layers, or as set
/// by `change`.
result<import_report>
cut(const temporary_directory& into, const std::string& file,
    std::vector<tensor_spec> inputs,
    const std::function<void(import_request&)>& change = {}) {
  import_request x;
  x.path = std::string{TEST_SCRIPTS} + "/" + file + ".pt";
  x.name = file;
  x.inputs = std::move(inputs);
  x.layers.least = 0;
  x.must_cut = true;
  x.stateful = file == "counting";
  if (change)
    change(x);
  bundle_store store{into.path()};
  return import_torchscript(*trusted(), x, store, [](auto) {});
}

std::shared_ptr<const bundle> opened(const result<import_report>& x) {
  INFO(why(x));
  REQUIRE(x);
  auto out = open_bundle(x->directory, verify::hashes);
  INFO(why(out));
  REQUIRE(out);
  return std::make_shared<const bundle>(std::move(*out));
}

std::vector<std::string> names_of(const bundle& x) {
  std::vector<std::string> out;
  for (auto& layer : x.info.layers)
    out.push_back(layer.name);
  return out;
}

using names = std::vector<std::string>;

const std::vector<tensor_spec> words{{"ids", dtype::i64, {-1, -1}},
                                     {"mask", dtype::f32, {-1, -1}}};

} // namespace

TEST_CASE("FP-10: a model is cut at its parts down to the given depth") {
  temporary_directory dir;
  auto whole = opened(
    cut(dir, "residual", {rows_of_4}, [](auto& x) { x.layers.depth = 0; }));
  CHECK(names_of(*whole) == names{"model"});
  auto deep = opened(cut(dir, "residual", {rows_of_4}));
  CHECK(names_of(*deep)
        == names{"stem", "blocks.0.0", "blocks.0.2", "blocks.1.0", "blocks.1.2",
                 "blocks.2.0", "blocks.2.2", "blocks.3.0", "blocks.3.2",
                 "blocks.4.0", "blocks.4.2", "blocks.5.0", "blocks.5.2",
                 "head"});
  auto flat = opened(
    cut(dir, "residual", {rows_of_4}, [](auto& x) { x.layers.depth = 2; }));
  CHECK(names_of(*flat)
        == names{"stem", "blocks.0", "blocks.1", "blocks.2", "blocks.3",
                 "blocks.4", "blocks.5", "head"});
  CHECK(flat->weights.size() == whole->weights.size());
}

TEST_CASE(
  "FP-10: every tensor that later layers need crosses each cut by name") {
  temporary_directory dir;
  auto x =
    opened(cut(dir, "encoder", words, [](auto& y) { y.layers.depth = 2; }));
  auto& layers = x->info.layers;
  REQUIRE(layers.size() >= 4);
  CHECK(layers[0].takes == names{"ids", "mask"});
  for (size_t i = 1; i < layers.size(); ++i) {
    INFO(layers[i].name << " is given "
                        << joined(crossing(x->info, i), ", ",
                                  [](auto& n) { return n; }));
    CHECK(crossing(x->info, i).size() >= 1);
    CHECK(crossing(x->info, i).size() <= 4);
  }
  CHECK(crossing(x->info, layers.size()) == names{"hidden", "pooled"});
}

TEST_CASE("FP-23, QU-03: layers on their own compute together the same as the "
          "whole on any cut") {
  temporary_directory dir;
  auto runner = trusted();
  struct row {
    const char* file;
    const std::vector<tensor_spec>& inputs;
  };
  for (auto& each : {row{"residual", {rows_of_4}}, row{"encoder", words},
                     row{"around", {rows_of_4}}}) {
    INFO(each.file);
    auto x = opened(cut(dir, each.file, each.inputs));
    auto n = x->info.layers.size();
    auto samples = read_samples(*x);
    REQUIRE(samples);
    REQUIRE(*samples);
    for (size_t at = 1; at < n; ++at) {
      INFO("cut before " << x->info.layers[at].name);
      auto head = runner->load(x, 0, at), tail = runner->load(x, at, n);
      REQUIRE(head);
      REQUIRE(tail);
      auto behind = (*head)->run((*samples)->inputs);
      REQUIRE(behind);
      CHECK(behind->size() == crossing(x->info, at).size());
      auto y = (*tail)->run(*behind);
      REQUIRE(y);
      CHECK(are_close(*y, (*samples)->outputs));
    }
  }
}

TEST_CASE(
  "FP-10: a part that only checks its inputs belongs to the layer behind it") {
  temporary_directory dir;
  auto x = opened(cut(dir, "checked", {rows_of_4}));
  CHECK(names_of(*x) == names{"first", "second"});
  for (size_t layer : {0, 1}) {
    auto stage = trusted()->load(x, layer, layer + 1);
    REQUIRE(stage);
    CHECK((*stage)->run({floats({1, 4}, 1)}));
    auto refused = (*stage)->run({floats({1, 4}, 1000)});
    REQUIRE_FALSE(refused);
    CHECK(refused.failure().text.find("too large") != std::string::npos);
  }
}

TEST_CASE("layers: a parameter shared by layers is complete in each layer") {
  temporary_directory dir;
  auto runner = trusted();
  for (auto file : {"tied", "tied-traced"})
    for (size_t depth : {0, 4}) {
      INFO(file << " " << depth);
      auto x = opened(cut(dir, file, {rows_of_4},
                          [depth](auto& y) { y.layers.depth = depth; }));
      CHECK(x->info.layers.size() == (depth == 0 ? 1 : 3));
      auto stage = runner->load(x, 0, x->info.layers.size());
      REQUIRE(stage);
      auto y = (*stage)->run({floats({1, 4}, 1)});
      REQUIRE(y);
      CHECK(values_of(y->front()) == std::vector<float>{2, 4, 6, 8});
    }
}

TEST_CASE(
  "layers: a model whose outputs differ from the expected ones is refused") {
  temporary_directory dir;
  auto file = dir.path() + "/expected";
  auto expect = [&](const tensor& y, const char* name = "output/0") {
    auto text = write_safetensors({{"input/x", floats({1, 4}, 1)}, {name, y}});
    REQUIRE(write_file(file, std::as_bytes(std::span{*text})));
    return cut(dir, "relay", {rows_of_4}, [&](auto& x) { x.expected = file; });
  };
  CHECK(expect(floats({1, 4}, 1)));
  auto other = expect(floats({1, 4}, 2));
  REQUIRE_FALSE(other);
  CHECK(other.failure().text
        == file + ": output/0 differs from the result of the model here");
  CHECK(expect(floats({2, 4}, 1)).failure().code == ec::bad_request);
  CHECK(expect(floats({1, 4}, 1), "output/1")
          .failure()
          .text.find("expected input/NAME for each of 1 inputs and output/0")
        != std::string::npos);
}

TEST_CASE("FP-10: a confined import cuts a model like any other") {
  temporary_directory here, there;
  auto confined = confined::make_confined_backend({});
  REQUIRE(confined);
  auto x = cut(here, "encoder", words);
  import_request asked;
  asked.path = std::string{TEST_SCRIPTS} + "/encoder.pt";
  asked.name = "encoder";
  asked.inputs = words;
  asked.layers.least = 0;
  bundle_store store{there.path()};
  auto y = import_torchscript(**confined, asked, store, [](auto) {});
  REQUIRE(x);
  INFO(why(y));
  REQUIRE(y);
  CHECK(print_manifest(x->info) == print_manifest(y->info));
  auto verified = verify_by_running(**confined, opened(y));
  INFO(why(verified));
  REQUIRE(verified);
  CHECK(*verified);
}

TEST_CASE("layers: a model that changes itself is one layer and a required cut "
          "is refused") {
  temporary_directory dir;
  auto says = [](const std::string& text) {
    INFO(text);
    CHECK(text.find("cannot be cut into layers: it changes itself while it"
                    " runs")
          != std::string::npos);
  };
  auto refused = cut(dir, "counting", {rows_of_4});
  REQUIRE_FALSE(refused);
  says(refused.failure().text);
  auto done =
    cut(dir, "counting", {rows_of_4}, [](auto& x) { x.must_cut = false; });
  REQUIRE(done);
  CHECK(done->info.layers.size() == 1);
  says(done->remarks.back());
}

TEST_CASE("layers: layers that are too small or too many are merged") {
  temporary_directory dir;
  auto few = opened(
    cut(dir, "residual", {rows_of_4}, [](auto& x) { x.layers.most = 3; }));
  CHECK(names_of(*few).size() == 3);
  auto large = opened(cut(dir, "residual", {rows_of_4},
                          [](auto& x) { x.layers.least = 16 << 10; }));
  for (size_t i = 0; i < large->info.layers.size(); ++i)
    CHECK(weight_bytes(*large, i, i + 1) >= 16 << 10);
  CHECK(names_of(*large).size() > 3);
}

TEST_CASE(
  "layers: a model whose layers are all too small is one layer with a remark") {
  temporary_directory dir;
  auto whole = cut(dir, "residual", {rows_of_4},
                   [](auto& x) { x.layers.least = 1 << 30; });
  REQUIRE(whole);
  CHECK(whole->info.layers.size() == 1);
  REQUIRE(whole->remarks.size() == 1);
  CHECK(whole->remarks[0]
        == "it is one layer: its parts together are not two layers of 1 GiB of"
           " parameters (--layer-size)");
}

TEST_CASE("layers: verify detects a bundle that computes other results than at "
          "its import") {
  temporary_directory dir;
  auto good = opened(cut(dir, "residual", {rows_of_4}));
  auto fine = verify_by_running(*trusted(), good);
  REQUIRE(fine);
  CHECK(*fine);
  auto bad = std::make_shared<bundle>(*good);
  for (auto& w : bad->weights)
    if (w.name == "head/head.bias")
      w.value = floats({3}, 100);
  auto found = verify_by_running(*trusted(), bad);
  REQUIRE_FALSE(found);
  CHECK(found.failure().text.find("differ from those at its import")
        != std::string::npos);
}
