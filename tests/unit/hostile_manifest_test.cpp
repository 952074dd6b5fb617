// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <sys/stat.h>

#include "models/bundle_store.hpp"
#include "tests/support/hostile_files.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

namespace fs = std::filesystem;

namespace {

void write(const std::string& path, const std::string& text) {
  REQUIRE(write_file(path, std::as_bytes(std::span{text})));
}

/// A model directory with a valid m/1.
class good_store {
public:
  good_store() {
    fs::create_directories(bundle() + "/layers");
    write(bundle() + "/layers/model.pt", "code");
    write(manifest(), good_manifest());
    write(aliases(), "aliases: {default: {version: 1}}\n");
    REQUIRE(open());
  }

  std::string bundle() const { return folder_ / "m/1"; }
  std::string manifest() const { return bundle() + "/model.yaml"; }
  std::string code() const { return bundle() + "/layers/model.pt"; }
  std::string aliases() const { return folder_ / "m/aliases.yaml"; }
  std::string elsewhere() const { return folder_ / "elsewhere"; }

  result<millrace::bundle> open() const {
    return bundle_store{folder_.path()}.open("m", "", verify::hashes);
  }

  bundle_store::listing list() const {
    return bundle_store{folder_.path()}.list();
  }

  /// The text without the path of the temporary folder.
  std::string without_folder(std::string text) const {
    auto start = folder_.path() + "/";
    for (size_t at; (at = text.find(start)) != std::string::npos;)
      text.erase(at, start.size());
    return text;
  }

private:
  temporary_directory folder_;
};

} // namespace

TEST_CASE(
  "P11: each hostile manifest is refused with the error and its place") {
  good_store store;
  for (auto& x : hostile_manifests()) {
    INFO(x.item);
    write(store.manifest(), x.content);
    auto found = store.open();
    REQUIRE_FALSE(found);
    auto text = store.without_folder(found.failure().text);
    CHECK(text == "m/1/" + x.says);
  }
  write(store.manifest(), good_manifest() + std::string(4 << 20, '\n'));
  CHECK(store.without_folder(store.open().failure().text)
        == "m/1/model.yaml: has more than 4194304 bytes");
}

TEST_CASE("P11: a bundle file that is not a regular file is refused at once "
          "and other bundles are still listed") {
  struct act {
    std::string item;
    std::function<void(good_store&)> make;
    const char* says;
  };
  auto move_and_link = [](auto path) {
    return [path](good_store& x) {
      fs::rename((x.*path)(), x.elsewhere());
      fs::create_symlink(x.elsewhere(), (x.*path)());
    };
  };
  auto pipe = [](auto path) {
    return [path](good_store& x) {
      fs::remove((x.*path)());
      REQUIRE(::mkfifo((x.*path)().c_str(), 0600) == 0);
    };
  };
  const act acts[]{
    {"code by a link", move_and_link(&good_store::code),
     "m/1/layers/model.pt: cannot open: Too many levels of symbolic links"},
    {"manifest by a link", move_and_link(&good_store::manifest),
     "m/1/model.yaml: cannot open: Too many levels of symbolic links"},
    {"aliases by a link", move_and_link(&good_store::aliases),
     "m/aliases.yaml: cannot open: Too many levels of symbolic links"},
    {"code that is a pipe", pipe(&good_store::code),
     "m/1/layers/model.pt: is not a regular file"},
    {"manifest that is a pipe", pipe(&good_store::manifest),
     "m/1/model.yaml: is not a regular file"},
    {"aliases that are a pipe", pipe(&good_store::aliases),
     "m/aliases.yaml: is not a regular file"},
    {"code by a hard link to what others write",
     [](good_store& x) {
       write(x.elsewhere(), "evil");
       fs::remove(x.code());
       fs::create_hard_link(x.elsewhere(), x.code());
     },
     "m/1/layers/model.pt: its SHA-256 is not the manifest's"},
    {"another model's bundle",
     [](good_store& x) {
       auto text = good_manifest();
       write(x.manifest(), text.replace(text.find("name: m"), 7, "name: n"));
     },
     "m/1/model.yaml: names model 'n', expected 'm' as its directory does"},
  };
  for (auto& x : acts) {
    INFO(x.item);
    good_store store;
    x.make(store);
    auto found = store.open();
    REQUIRE_FALSE(found);
    CHECK(store.without_folder(found.failure().text) == x.says);
    auto other = store.bundle() + "/../../other/1";
    fs::create_directories(other + "/layers");
    auto text = good_manifest();
    write(other + "/model.yaml",
          text.replace(text.find("name: m"), 7, "name: other"));
    write(other + "/layers/model.pt", "code");
    CHECK(store.list().good.back().content.info.name == "other");
  }
}
