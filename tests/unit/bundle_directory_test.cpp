// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>

#include "models/bundle_directory.hpp"
#include "models/travelling_bundle.hpp"
#include "tests/support/store_with_one.hpp"
#include "tests/support/why.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

/// A bundle directory that holds m/1.
struct one_kept {
  one_kept() {
    auto x = here.open();
    REQUIRE(x);
    content = travelling::id_of(*x);
    auto done = kept.keep(content, *x);
    REQUIRE_MESSAGE(done, why(done));
  }

  std::string file(const std::string& name) const {
    return folder / content + "/" + name;
  }

  store_with_one here;
  temporary_directory folder;
  bundle_directory kept{folder.path()};
  std::string content;
};

} // namespace

TEST_CASE("bundle_directory: a stored bundle is listed and opens with the same "
          "content") {
  one_kept x;
  auto found = bundle_directory{x.folder.path()}.list().good;
  REQUIRE(found.size() == 1);
  CHECK(found[0].content == x.content);
  auto again = x.kept.open(x.content);
  REQUIRE_MESSAGE(again, why(again));
  auto first = x.here.open();
  REQUIRE(first);
  CHECK(*travelling::pieces_of(*again) == *travelling::pieces_of(*first));
  auto& file = *again->weights_file;
  CHECK(file.chunks_there() < file.chunks()); // opening reads no chunks
  for (size_t i = 0; i < file.chunks(); ++i)
    CHECK(file.verify(i));
  CHECK(file.content() == first->weights_file->content());
}

TEST_CASE("P8: a change to a stored bundle is detected when it is used") {
  one_kept x;
  auto bytes = read_file(x.file("weights.safetensors"), 1u << 24);
  REQUIRE(bytes);
  bytes->back() ^= 1;
  REQUIRE(write_file(x.file("weights.safetensors"),
                     std::as_bytes(std::span{*bytes})));
  auto again = x.kept.open(x.content);
  REQUIRE(again);
  auto& file = *again->weights_file;
  CHECK_FALSE(file.verify(file.chunks() - 1));
  std::string code = "another";
  code.resize(again->info.layers[0].code_bytes, ' ');
  REQUIRE(write_file(x.file(again->info.layers[0].code),
                     std::as_bytes(std::span{code})));
  CHECK_FALSE(x.kept.open(x.content));
}

TEST_CASE(
  "bundle_directory: leftovers of a crash are not listed and are removed") {
  namespace fs = std::filesystem;
  one_kept x;
  auto half = x.folder / ".staging-1-0";
  fs::copy(x.folder / x.content, half, fs::copy_options::recursive);
  auto torn = x.folder / std::string(64, 'a');
  fs::copy(x.folder / x.content, torn, fs::copy_options::recursive);
  fs::remove(torn + "/model.yaml");
  auto other = x.folder / std::string(64, 'b');
  fs::copy(x.folder / x.content, other, fs::copy_options::recursive);
  fs::create_directory(x.folder / "somebody's");
  CHECK(x.kept.list().good.size() == 1);
  CHECK_FALSE(fs::exists(half));
  CHECK_FALSE(fs::exists(torn));
  CHECK_FALSE(fs::exists(other)); // its name is not its content hash
  CHECK(fs::exists(x.folder / "somebody's"));
}

TEST_CASE("bundle_directory: a bundle that cannot be written leaves no files") {
  one_kept x;
  auto content = x.here.open();
  REQUIRE(content);
  // A file stands where a folder is needed, after other files were written.
  content->info.layers[1].code = content->info.layers[0].code + "/below";
  temporary_directory folder;
  bundle_directory other{folder / "bundles"};
  auto done = other.keep(x.content, *content);
  REQUIRE_FALSE(done);
  CHECK(done.failure().code == ec::unavailable);
  CHECK(other.list().good.empty());
  CHECK_FALSE(std::filesystem::exists(folder / "bundles"));
}

TEST_CASE(
  "bundle_directory: only the owner has access and a bundle can be dropped") {
  one_kept x;
  auto may = std::filesystem::status(x.folder.path()).permissions();
  CHECK(may == std::filesystem::perms::owner_all);
  CHECK(x.kept.is_one(x.folder / x.content));
  CHECK_FALSE(x.kept.is_one(x.here.file("")));
  x.kept.drop(x.content);
  CHECK(x.kept.list().good.empty());
  CHECK_FALSE(x.kept.open(x.content));
}

TEST_CASE("P8: a stored bundle with truncated weights is removed and counted "
          "as broken") {
  one_kept x;
  auto found = x.kept.open(x.content);
  REQUIRE(found);
  std::filesystem::resize_file(found->weights_file->path(), 1000);
  auto left = x.kept.list();
  CHECK(left.good.empty());
  CHECK(left.broken == 1);
  CHECK(x.kept.list().broken == 0); // the bundle was removed
}

TEST_CASE("bundle_directory: the last use of a bundle is stored on disk") {
  namespace fs = std::filesystem;
  one_kept x;
  auto long_ago = fs::file_time_type::clock::now() - 1h;
  fs::last_write_time(x.folder / x.content, long_ago);
  CHECK(x.kept.list().good.at(0).idle >= 1h);
  REQUIRE(x.kept.open(x.content));
  CHECK(x.kept.list().good.at(0).idle < 1h);
}
