// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include <sys/resource.h>
#include <unistd.h>

#include "models/backend/backend.hpp"
#include "models/import/import.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

const std::string scripts = TEST_SCRIPTS;

std::shared_ptr<backend> runner() {
  auto x = torch_backend(code_trust::full);
  REQUIRE(x);
  return *x;
}

import_request asks(const std::string& file, std::vector<tensor_spec> inputs) {
  import_request out;
  out.path = scripts + "/" + file + ".pt";
  out.name = file;
  out.inputs = std::move(inputs);
  out.stateful = file == "numbering";
  return out;
}

result<import_report> import_into(const temporary_directory& dir,
                                  const import_request& x) {
  bundle_store store{dir.path()};
  return import_torchscript(*runner(), x, store, [](auto) {});
}

std::unique_ptr<loaded_stage> load(const std::string& directory) {
  auto content = open_bundle(directory, verify::hashes);
  REQUIRE(content);
  auto shared = std::make_shared<bundle>(std::move(*content));
  auto stage = runner()->load(shared, 0, 1);
  REQUIRE(stage);
  return std::move(*stage);
}

} // namespace

TEST_CASE("import: a layer without parameters gets them from the mapped "
          "weights of its bundle") {
  temporary_directory dir;
  auto done = import_into(dir, asks("affine", {rows_of_4}));
  REQUIRE(done);
  auto content = open_bundle(done->directory, verify::hashes);
  REQUIRE(content);
  REQUIRE(content->weights.size() == 3);
  CHECK(content->weights[0].name == "model/weight");
  CHECK(content->code[0].text().find(content->weights[0].value.data.text())
        == std::string_view::npos);
  auto y = load(done->directory)->run({floats({1, 4})});
  REQUIRE(y);
  CHECK(values_of((*y)[0]) == std::vector<float>{24, 58});
}

TEST_CASE("import: outputs are determined by a run of the model") {
  temporary_directory dir;
  auto done = import_into(
    dir, asks("two", {{"a", dtype::f32, {-1, 3}}, {"b", dtype::f32, {-1, 3}}}));
  REQUIRE(done);
  auto& outputs = done->info.signature.outputs;
  REQUIRE(outputs.size() == 2);
  CHECK(to_string(outputs[0]) == "output0:F32[-1, 3]");
}

TEST_CASE("import: an axis that requests choose is free in the outputs that "
          "depend on it") {
  temporary_directory dir;
  auto x = asks(
    "two", {{"a", dtype::f32, {-1, -1, 3}}, {"b", dtype::f32, {-1, -1, 3}}});
  auto expected = "output0:F32[-1, -1, 3]";
  SUBCASE("beside the batch axis") {
  }
  SUBCASE("without batches") {
    x.batch_axis = -1;
  }
  auto done = import_into(dir, x);
  REQUIRE(done);
  CHECK(to_string(done->info.signature.outputs[0]) == expected);
}

TEST_CASE("import: free axes are tried with usual extents and the divisor of a "
          "model is found") {
  temporary_directory dir;
  auto x = asks("strided", {{"x", dtype::f32, {-1, 3, -1, -1}}});
  std::string outputs = "output:F32[-1, 2, -1, -1]";
  int64_t extent = 32;
  SUBCASE("halved images") {
  }
  SUBCASE("texts of twelve words") {
    x = asks("short", {{"x", dtype::f32, {-1, -1, 4}}});
    outputs = "output:F32[-1, -1, 4]";
    extent = 8;
  }
  SUBCASE("no free axis") {
    x = asks("strided", {{"x", dtype::f32, {-1, 3, 6, 6}}});
    outputs = "output:F32[-1, 2, 3, 3]";
    extent = 1;
  }
  auto done = import_into(dir, x);
  REQUIRE(done);
  auto& s = done->info.signature;
  CHECK(to_string(s.outputs[0]) == outputs);
  CHECK(s.usual_extent == extent);
}

TEST_CASE(
  "import: if inputs cannot be inferred the message gives the options to use") {
  temporary_directory dir;
  auto done = import_into(dir, asks("two", {}));
  REQUIRE_FALSE(done);
  CHECK(
    done.failure().text.find("give --input a:F32:-1,... --input b:F32:-1,...")
    != std::string::npos);
}

TEST_CASE("import: an input with the name of an argument is that argument") {
  temporary_directory dir;
  auto refusal = [&](const char* first, const char* second) {
    auto done = import_into(dir, asks("two", {{first, dtype::f32, {-1, 3}},
                                              {second, dtype::f32, {-1, 3}}}));
    return done ? "accepted" : done.failure().text;
  };
  CHECK(refusal("b", "a").find("'b' was given as number 1, forward takes it as"
                               " number 2 (expected in its order: a, b)")
        != std::string::npos);
  CHECK(refusal("x", "x").find("has two inputs 'x'") != std::string::npos);
  CHECK(refusal("a", "a").find("'a' was given as number 2")
        != std::string::npos);
  CHECK(refusal("left", "right") == "accepted");
}

TEST_CASE("import: the input of a model is inferred if its first parameter is "
          "a matrix") {
  temporary_directory dir;
  auto done = import_into(dir, asks("affine", {}));
  REQUIRE(done);
  CHECK(to_string(done->info.signature.inputs[0]) == "x:F32[-1, 4]");
}

TEST_CASE(
  "import: inputs that do not run are refused with the model's message") {
  temporary_directory dir;
  auto done = import_into(dir, asks("affine", {{"x", dtype::f32, {-1, 5}}}));
  REQUIRE_FALSE(done);
  CHECK(done.failure().code == ec::bad_request);
  CHECK(done.failure().text.find("does not run on inputs of these shapes")
        != std::string::npos);
  CHECK(done.failure().text.find("mat") != std::string::npos);
  CHECK(done.failure().text.find('\n') == std::string::npos);
}

TEST_CASE("import: options that do not fit the model are refused") {
  temporary_directory dir;
  auto refusal = [&](auto change) {
    auto x = asks("affine", {rows_of_4});
    change(x);
    auto done = import_into(dir, x);
    return done ? "accepted" : done.failure().text;
  };
  auto starts = [](const std::string& text, const char* with) {
    INFO(text);
    CHECK(text.find(with) != std::string::npos);
  };
  starts(refusal([](auto& x) { x.batch_axis = 2; }), "has 2 axes");
  starts(refusal([](auto& x) { x.batch_axis = -7; }), "batch axis -7");
  starts(refusal([](auto& x) {
           x.inputs[0].extents = {5, 4};
         }),
         "has a fixed extent");
  starts(refusal([](auto& x) { x.version = ~uint64_t{0}; }), "at most");
  starts(refusal([](auto& x) {
           x.accuracy = accuracy_info{NAN, "", ""};
         }),
         "expected a share between 0 and 1");
  starts(refusal([](auto& x) {
           x.output_names = {"y", "z"};
         }),
         "2 output names were given, the model has 1");
  starts(refusal([](auto& x) {
           x.labels = {"a", "b", "c"};
         }),
         "3 labels were given, output output:F32[-1, 2] has 2 columns");
  starts(refusal([](auto& x) {
           x.inputs[0].extents = {-1, int64_t{1} << 60};
         }),
         "three rows are more than");
}

TEST_CASE(
  "import: an operation that couples the rows of a batch is found and named") {
  struct {
    const char* file;
    std::vector<tensor_spec> inputs;
    const char* reason; ///< null: requests may share a batch
  } const table[]{
    {"scaling", {rows_of_4}, "aten::max"},
    {"classes", {{"x", dtype::i64, {-1, -1}}}, "aten::one_hot"},
    {"sized", {rows_of_4}, "aten::max"},
    {"capped", {rows_of_4}, "from 0 to 255"},
    {"experts", {rows_of_4}, "aten::cumsum"},
    {"rolled", {rows_of_4}, "aten::roll"},
    {"ensemble", {rows_of_4}, nullptr},
    {"picky", {rows_of_4}, nullptr}, // it raises and computes nothing
    {"traced-view", {rows_of_4}, nullptr},
    {"normed", {rows_of_4}, nullptr},
    {"affine", {rows_of_4}, nullptr},
    {"residual", {rows_of_4}, nullptr}};
  temporary_directory dir;
  for (auto& row : table) {
    CAPTURE(row.file);
    auto done = import_into(dir, asks(row.file, row.inputs));
    REQUIRE_MESSAGE(done, why(done));
    std::string all;
    for (auto& remark : done->remarks)
      all += remark + "\n";
    INFO(all);
    CHECK((done->info.signature.batch_axis == -1) == (row.reason != nullptr));
    if (row.reason != nullptr)
      CHECK(all.find(row.reason) != std::string::npos);
    auto vouched = asks(row.file, row.inputs);
    vouched.rows_independent = true;
    auto again = import_into(dir, vouched);
    REQUIRE_MESSAGE(again, why(again));
    CHECK(again->info.signature.batch_axis == 0);
  }
}

TEST_CASE("import: a model that keeps state is refused by the attribute's name "
          "or marked as stateful") {
  temporary_directory dir;
  struct {
    const char* file;
    const char* attribute;
  } const table[]{{"tallying", "'count'"},
                  {"keeping", "'last'"},
                  {"numbering", "'runs'"},
                  {"counting", "'runs'"}};
  for (auto& row : table) {
    CAPTURE(row.file);
    auto x = asks(row.file, {rows_of_4});
    x.stateful = false;
    auto refused = import_into(dir, x);
    REQUIRE_FALSE(refused);
    INFO(refused.failure().text);
    CHECK(refused.failure().text.find("keeps state") != std::string::npos);
    CHECK(refused.failure().text.find(row.attribute) != std::string::npos);
    x.stateful = true;
    auto done = import_into(dir, x);
    REQUIRE_MESSAGE(done, why(done));
    CHECK(done->info.stateful);
    CHECK(done->info.signature.batch_axis == -1);
  }
}

TEST_CASE("import: requests of a model with dependent rows are never merged") {
  temporary_directory dir;
  auto done = import_into(dir, asks("capped", {rows_of_4}));
  REQUIRE(done);
  CHECK(done->info.signature.batch_axis == -1);
  REQUIRE(done->remarks.size() == 3);
  CHECK(done->remarks[0].starts_with("the file has no parameters"));
  CHECK(done->remarks[1].starts_with("a row's result may depend on the"));
  CHECK(done->remarks[2].starts_with("it is one layer: "));
}

TEST_CASE("import: dependent rows are detected in every dtype and behind "
          "values that are not numbers") {
  temporary_directory dir;
  auto axis_of = [&](const std::string& file, const tensor_spec& input) {
    auto done = import_into(dir, asks(file, {input}));
    REQUIRE(done);
    return done->info.signature.batch_axis;
  };
  CHECK(axis_of("deceptive", rows_of_4) == -1);
  CHECK(axis_of("halves", {"x", dtype::f16, {-1, 4}}) == -1);
  CHECK(axis_of("halves", {"x", dtype::bf16, {-1, 4}}) == -1);
  CHECK(axis_of("halves", {"x", dtype::f32, {-1, 4}}) == -1);
  CHECK(axis_of("double", {"x", dtype::f64, {-1, 513}}) == 0);
  CHECK(axis_of("identity", {"x", dtype::f16, {-1, 4}}) == 0);
}

TEST_CASE(
  "backend: code with a run time that depends on input values is detected") {
  temporary_directory dir;
  auto depends = [&](const std::string& file) {
    auto done = import_into(dir, asks(file, {rows_of_4}));
    REQUIRE(done);
    return load(done->directory)->depends_on_values();
  };
  CHECK(depends("lasting"));
  CHECK(depends("sized"));
  CHECK(depends("nested-sized"));
  CHECK_FALSE(depends("nested-affine"));
  CHECK_FALSE(depends("affine"));
  CHECK_FALSE(depends("ballast"));
}

TEST_CASE("P18: an import without disk space leaves no files") {
  temporary_directory dir;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual{};
  ::getrlimit(RLIMIT_FSIZE, &usual);
  size_t refused = 0;
  for (rlim_t most = 0;; most += 100) {
    CAPTURE(most);
    rlimit tight{most, usual.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &tight);
    auto done = import_into(dir, asks("affine", {rows_of_4}));
    ::setrlimit(RLIMIT_FSIZE, &usual);
    if (done)
      break;
    ++refused;
    REQUIRE(done.failure().text.find("File too large") != std::string::npos);
    REQUIRE(std::filesystem::is_empty(dir.path()));
  }
  std::signal(SIGXFSZ, SIG_DFL);
  CHECK(refused > 10);
}

TEST_CASE("import: a file that is no model is refused") {
  temporary_directory dir;
  auto junk = std::string{"not a zip"};
  REQUIRE(write_file(dir / "junk.pt", std::as_bytes(std::span{junk})));
  import_request x;
  x.path = dir / "junk.pt";
  x.name = "junk";
  auto done = import_into(dir, x);
  REQUIRE_FALSE(done);
  CHECK(done.failure().code == ec::bad_request);
  CHECK(done.failure().text.find("junk.pt: is not a TorchScript file;")
        != std::string::npos);
}

TEST_CASE("backend: an output that is a view of an input keeps it alive") {
  temporary_directory dir;
  auto done = import_into(dir, asks("identity", {rows_of_4}));
  REQUIRE(done);
  tensor_list outputs;
  {
    auto stage = load(done->directory);
    auto y = stage->run({floats({2, 4}, 5)});
    REQUIRE(y);
    outputs = std::move(*y);
  }
  CHECK(values_of(outputs[0]) == std::vector<float>{5, 6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("backend: the peak memory of a pass is metered") {
  temporary_directory dir;
  auto done = import_into(dir, asks("affine", {rows_of_4}));
  REQUIRE(done);
  auto stage = load(done->directory);
  uint64_t peak = 0;
  REQUIRE(stage->run({floats({1000, 4})}, {}, &peak));
  // The product of two numbers per row, and at the same time its sum with two
  // others.
  CHECK(peak == 16'000);
}

TEST_CASE(
  "backend: a stage with code compiled for another has the initial state") {
  temporary_directory dir;
  auto done = import_into(dir, asks("numbering", {rows_of_4}));
  REQUIRE_MESSAGE(done, why(done));
  auto first_of = [](loaded_stage& x) {
    auto y = x.run({floats({1, 4}, 10)});
    REQUIRE_MESSAGE(y, why(y));
    return values_of((*y)[0])[0];
  };
  auto a = load(done->directory);
  CHECK(first_of(*a) == 12);
  CHECK(first_of(*a) == 14);
  auto b = load(done->directory);
  CHECK(first_of(*b) == 12);
  CHECK(first_of(*a) == 16);
  a.reset();
  CHECK(first_of(*b) == 14);
  CHECK(first_of(*load(done->directory)) == 12);
}

TEST_CASE("backend: an exception of a model is an error with its message") {
  temporary_directory dir;
  auto done = import_into(dir, asks("picky", {rows_of_4}));
  REQUIRE(done);
  auto y = load(done->directory)->run({floats({1, 4}, 1000)});
  REQUIRE_FALSE(y);
  CHECK(y.failure().code == ec::internal);
  CHECK(y.failure().text.find("a number above 100") != std::string::npos);
}

TEST_CASE("backend: code and weights that do not match are refused") {
  temporary_directory dir;
  auto done = import_into(dir, asks("affine", {rows_of_4}));
  REQUIRE(done);
  auto content = open_bundle(done->directory, verify::hashes);
  REQUIRE(content);
  content->weights[0].name = "model/wrong";
  auto shared = std::make_shared<bundle>(std::move(*content));
  auto stage = runner()->load(shared, 0, 1);
  REQUIRE_FALSE(stage);
  CHECK(stage.failure().text.find("no parameter 'weight'")
        != std::string::npos);
}
