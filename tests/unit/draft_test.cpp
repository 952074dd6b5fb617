// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "models/import/draft.hpp"
#include "models/travelling_bundle.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A layer with a parameter of 1,000 equal floats for each value.
model_parts::layer layer_of(const std::string& name,
                            const std::vector<float>& values) {
  model_parts::layer out;
  out.name = name;
  for (auto x : values)
    out.parameters.push_back(
      {"p" + std::to_string(out.parameters.size()), floats({1000}, x)});
  return out;
}

draft draft_of(std::vector<model_parts::layer> layers) {
  manifest info;
  info.format = bundle_format;
  info.name = "m";
  info.version = 1;
  info.signature.inputs = {{"x", dtype::f32, {-1, 4}}};
  info.signature.outputs = {{"y", dtype::f32, {-1, 4}}};
  model_parts parts;
  parts.layers = std::move(layers);
  for (size_t i = 0; i + 1 < parts.layers.size(); ++i)
    parts.layers[i].gives = {"from " + parts.layers[i].name};
  auto out = make_draft(info, std::move(parts));
  REQUIRE(out);
  return std::move(*out);
}

/// The first number of each parameter of a layer.
std::vector<float> first_numbers(const bundle& x, size_t layer) {
  std::vector<float> out;
  for (auto& w : weights_of(x, layer, layer + 1)) {
    CHECK(w.name.starts_with(x.info.layers[layer].name + "/p"));
    out.push_back(*reinterpret_cast<const float*>(w.value.data.data()));
  }
  return out;
}

constexpr uint64_t parameter_bytes = 4000;

} // namespace

TEST_CASE("import: a block that a model uses three times is stored once and "
          "each use has its parameters") {
  auto x = draft_of({layer_of("first", {1}), layer_of("block", {2, 3}),
                     layer_of("again", {2, 3}), layer_of("and-again", {2, 3}),
                     layer_of("last", {4})});
  auto& content = *x.content;
  CHECK(content.weights.size() == 4);
  CHECK(x.copied == 0);
  for (size_t i : {1, 2, 3})
    CHECK(first_numbers(content, i) == std::vector<float>{2, 3});
  CHECK(weight_bytes(content, 0, 5) == 4 * parameter_bytes);
  CHECK(weight_bytes(content, 2, 5) == 3 * parameter_bytes);
  CHECK(content.info.layers[3].parameter_bytes == 0);
  // A stage that begins with the last use needs the file from the block on.
  CHECK(first_needed(content.info, 3, 5) == 1);
  auto read = parse_manifest(print_manifest(content.info), "model.yaml");
  REQUIRE_MESSAGE(read, why(read));
  CHECK(read->layers[3].shares[1].of == "p1");
  CHECK(read->layers[3].shares[1].layer == 1);
}

TEST_CASE("import: a layer keeps its copy of an earlier layer's parameters if "
          "many bytes lie between the two") {
  auto x = draft_of({layer_of("embedding", {1}), layer_of("middle", {2, 3, 4}),
                     layer_of("head", {1})});
  CHECK(x.content->weights.size() == 5);
  CHECK(x.copied == parameter_bytes);
  CHECK(first_needed(x.content->info, 2, 3) == 2);
}

TEST_CASE(
  "import: a model of one layer stores a parameter with two names once") {
  auto x = draft_of({layer_of("all", {1, 2, 1})});
  CHECK(x.content->weights.size() == 2);
  auto values = first_numbers(*x.content, 0);
  std::sort(values.begin(), values.end());
  CHECK(values == std::vector<float>{1, 1, 2});
}

TEST_CASE("manifest: a layer shares parameters of earlier layers only") {
  auto x = draft_of({layer_of("a", {1}), layer_of("b", {1})});
  auto& shares = x.content->info.layers[1].shares;
  REQUIRE(shares.size() == 1);
  shares[0].layer = 2;
  auto read = parse_manifest(print_manifest(x.content->info), "model.yaml");
  REQUIRE_FALSE(read);
  CAPTURE(read.failure().text);
  CHECK(read.failure().text.find("shares 'p0' with a later layer")
        != std::string::npos);
}

TEST_CASE("signature: outputs with a wrong number or type or rank are an error "
          "of the model") {
  signature s;
  s.outputs = {{"y", dtype::f32, {-1, 4}}};
  CHECK(check_outputs(s, std::vector{floats({2, 4})}));
  CHECK(check_outputs(s, std::vector{floats({2, 9})}));
  auto reason = [&](const tensor_list& xs) {
    auto x = check_outputs(s, xs);
    REQUIRE_FALSE(x);
    CHECK(x.failure().code == ec::internal);
    return x.failure().text;
  };
  CHECK(reason({floats({8})})
        == "the model returned F32[8] as output y:F32[-1, 4]");
  CHECK(reason({}) == "the model returned 0 output(s), expected 1");
  CHECK(reason({*tensor::zeros(dtype::i64, {1, 4})})
        == "the model returned I64[1, 4] as output y:F32[-1, 4]");
}

TEST_CASE("signature: a name that a message cannot carry is refused") {
  for (auto name : {"x\x1b[31m", "a\nb", "\xff"}) {
    signature s;
    s.inputs = {{"x", dtype::f32, {-1, 4}}};
    s.outputs = {{name, dtype::f32, {-1, 4}}};
    auto x = check_signature(s);
    REQUIRE_FALSE(x);
    CHECK(x.failure().code == ec::bad_config);
    CHECK(x.failure().text.find("control") != std::string::npos);
  }
}
