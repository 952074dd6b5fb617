// SPDX-License-Identifier: Apache-2.0

/// \file
/// Imports in confined processes: they give the same bundles as other imports,
/// and a hostile file cannot harm the importing process.

#include <doctest/doctest.h>

#include <cerrno>
#include <cstdlib>

#include <unistd.h>

#include "models/confined/confined_backend.hpp"
#include "models/confined/sanitized.hpp"
#include "models/import/import.hpp"
#include "tests/support/attempts.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/children.hpp"
#include "tests/support/temporary_directory.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<backend> confined_runner(confined::backend_settings x = {}) {
  ::unsetenv("MILLRACE_BACKEND"); // another test of this process may set it
  auto out = confined::make_confined_backend(x);
  REQUIRE(out);
  return *out;
}

result<import_report> import_with(backend& runner,
                                  const temporary_directory& into,
                                  const std::string& file,
                                  std::vector<tensor_spec> inputs) {
  import_request x;
  x.path = std::string{TEST_SCRIPTS} + "/" + file + ".pt";
  x.name = file;
  x.inputs = std::move(inputs);
  bundle_store store{into.path()};
  return import_torchscript(runner, x, store, [](auto) {});
}

/// Takes apart a file whose text `deed` makes the hostile backend do it.
result<model_parts> take_apart(const std::string& deed,
                               confined::backend_settings settings = {}) {
  ::setenv("MILLRACE_BACKEND", HOSTILE_BACKEND, 1);
  auto runner = confined::make_confined_backend(settings);
  REQUIRE(runner);
  temporary_directory dir;
  REQUIRE(write_file(dir / "model.pt", std::as_bytes(std::span{deed})));
  auto file = map_file(dir / "model.pt");
  REQUIRE(file);
  return (*runner)->take_apart(*file);
}

std::string refusal(const result<model_parts>& x) {
  REQUIRE_FALSE(x);
  return x.failure().text;
}

} // namespace

TEST_CASE("P14: a confined import makes the same bundle as any other") {
  temporary_directory here, there;
  auto trusted = torch_backend(code_trust::full);
  REQUIRE(trusted);
  auto confined = confined_runner();
  struct row {
    const char* file;
    std::vector<tensor_spec> inputs;
  };
  const tensor_spec a{"a", dtype::f32, {-1, 3}}, b{"b", dtype::f32, {-1, 3}};
  for (auto& each :
       {row{"affine", {}}, row{"two", {a, b}}, row{"centred", {rows_of_4}},
        row{"ballast", {rows_of_4}}, row{"nested-affine", {rows_of_4}}}) {
    INFO(each.file);
    auto x = import_with(**trusted, here, each.file, each.inputs);
    auto y = import_with(*confined, there, each.file, each.inputs);
    REQUIRE(x);
    INFO(why(y));
    REQUIRE(y);
    CHECK(print_manifest(x->info) == print_manifest(y->info));
    CHECK(x->remarks == y->remarks);
    CHECK(open_bundle(y->directory, verify::hashes));
  }
}

TEST_CASE("P14: a confined import reports errors as exactly as any other") {
  temporary_directory dir;
  auto runner = confined_runner();
  auto says = [&](const std::string& file, std::vector<tensor_spec> inputs) {
    auto done = import_with(*runner, dir, file, std::move(inputs));
    REQUIRE_FALSE(done);
    CHECK(done.failure().code == ec::bad_request);
    return done.failure().text;
  };
  auto has = [](const std::string& text, const char* part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(says("two", {}), "give --input a:F32:-1,... --input b:F32:-1,...");
  has(says("affine", {{"x", dtype::f32, {-1, 5}}}),
      "does not run on inputs of these shapes");
  has(says("doomed", {rows_of_4}), "a trial run: the model's process ended");
  has(says("mute", {rows_of_4}), "the model returned no tensor");
  CHECK(bundle_store{dir.path()}.list().good.empty());
}

TEST_CASE("P14: an endless trial run is ended") {
  temporary_directory dir;
  auto runner = confined_runner({{uint64_t{1} << 30}, 2s});
  auto done = import_with(*runner, dir, "forever", {rows_of_4});
  REQUIRE_FALSE(done);
  CHECK(done.failure().text.find("took too long") != std::string::npos);
}

TEST_CASE("P14: forbidden actions of a file during its import fail") {
  auto parts = take_apart("attempts");
  REQUIRE(parts);
  CHECK(parts->inputs.size() == attempts().size());
  for (size_t i = 0; i < parts->inputs.size(); ++i) {
    INFO(attempts()[i].what);
    if (!confined::sanitized)
      CHECK(parts->inputs[i].type == std::to_string(EPERM));
    else if (!attempts()[i].ordinary)
      CHECK(parts->inputs[i].type != "0");
  }
}

TEST_CASE(
  "P14: code that would open files is refused before it runs in any spelling") {
  temporary_directory dir;
  auto runner = confined_runner({{uint64_t{256} << 20}, 10s});
  struct row {
    const char* file;
    const char* says;
  };
  for (auto& [file, says] :
       {row{"prying", "(code/__torch__.py) calls torch.from_file, which opens"
                      " files; expected code that only computes"},
        row{"disguised", "calls aten.save, which opens files"},
        row{"shouting", "calls torch.from_file, which opens files"},
        row{"renaming", "has another name for 'torch'"},
        row{"old", "is of a format before PyTorch 1.4"},
        row{"lite", "is not a TorchScript file; expected what torch.jit.script"
                    "(module) or torch.jit.trace saves"}}) {
    auto done = import_with(*runner, dir, file, {rows_of_4});
    REQUIRE_FALSE(done);
    INFO(done.failure().text);
    CHECK(done.failure().code == ec::bad_request);
    CHECK(done.failure().text.find(says) != std::string::npos);
  }
  auto trusted = torch_backend(code_trust::full);
  REQUIRE(trusted);
  CHECK(import_with(**trusted, dir, "prying", {rows_of_4}));
  // taking it apart did not open the file either
  CHECK(::access("/tmp/millrace-prying", F_OK) != 0);
}

TEST_CASE("P14: an archive that expands without limit stays within the memory "
          "limit of an import") {
  temporary_directory dir;
  auto runner = confined_runner({{uint64_t{64} << 20}, 10s});
  for (std::string file : {"bomb", "claim"}) {
    if (confined::sanitized && file == "bomb")
      continue; // AddressSanitizer permits no memory limit
    INFO(file);
    auto done = import_with(*runner, dir, file, {rows_of_4});
    REQUIRE_FALSE(done);
    MESSAGE(done.failure().text);
  }
  CHECK(import_with(*runner, dir, "identity", {rows_of_4}));
}

TEST_CASE(
  "P14: a file that loops or ends its process has no effect on others") {
  auto loop = refusal(take_apart("loop", {{uint64_t{1} << 30}, 300ms}));
  CHECK(loop.find("was ended after 300 ms") != std::string::npos);
  auto crash = refusal(take_apart("crash"));
  CHECK(crash.find("apart ended with SIGABRT") != std::string::npos);
  CHECK(grandchildren_of(::getpid()).empty());
}

TEST_CASE("P14: the parts of a file are validated") {
  CHECK(refusal(take_apart("scold")) == "?[2J is hostile");
  CHECK(refusal(take_apart("paint"))
        == "forward takes '\\x1b[31m Tensor' (expected a name and a type)");
  auto swollen = refusal(take_apart("swell", {{uint64_t{64} << 20}, 10s}));
  INFO(swollen);
  CHECK(swollen.size() > 0);
}
