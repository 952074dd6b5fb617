// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <future>
#include <sys/stat.h>

#include "runtime/bytes.hpp"
#include "runtime/store/store.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;

namespace {

result<uint64_t> put(store& s, const std::string& key, const std::string& value,
                     uint64_t expected) {
  std::promise<result<uint64_t>> out;
  s.put("t", key, value, expected, [&](auto x) { out.set_value(x); });
  return out.get_future().get();
}

std::vector<stored_row> load(store& s) {
  std::promise<std::vector<stored_row>> out;
  s.load("t", [&](auto x) { out.set_value(*x); });
  return out.get_future().get();
}

} // namespace

TEST_CASE("store: a row survives the process that wrote it") {
  test::temporary_directory dir;
  {
    auto s = open_store(test::disk_at(dir / "data"));
    REQUIRE(s);
    CHECK(*put(**s, "b", "two", 0) == 1);
    CHECK(*put(**s, "a", "one", 0) == 1);
    CHECK(*put(**s, "a", "uno", 1) == 2);
  }
  auto s = open_store(test::disk_at(dir / "data"));
  REQUIRE(s);
  auto rows = load(**s);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].key == "a");
  CHECK(rows[0].value == "uno");
  CHECK(rows[0].version == 2);
}

TEST_CASE("store: compare-and-set refuses a version that does not exist") {
  test::temporary_directory dir;
  auto s = open_store(test::disk_at(dir.path()));
  REQUIRE(s);
  CHECK(*put(**s, "a", "one", 0) == 1);
  CHECK(put(**s, "a", "x", 0).failure().code == ec::conflict);
  CHECK(put(**s, "a", "x", 7).failure().code == ec::conflict);
  CHECK(put(**s, "a", "", 7).failure().code == ec::conflict);
  CHECK(put(**s, "a", "", 1));
  CHECK(load(**s).empty());
}

TEST_CASE("store: only the owner can read its file") {
  test::temporary_directory dir;
  REQUIRE(open_store(test::disk_at(dir.path())));
  struct stat info;
  REQUIRE(::stat((dir / facts_file).c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("store: a file that is no journal is refused with its name") {
  test::temporary_directory dir;
  for (auto& junk : {std::string(4096, 'j'), std::string{}, std::string{"x"}}) {
    REQUIRE(write_file(dir / facts_file, std::as_bytes(std::span{junk})));
    auto s = open_store(test::disk_at(dir.path()));
    REQUIRE_FALSE(s);
    CHECK(s.failure().code == ec::bad_config);
    CHECK(s.failure().text.find(dir / facts_file) == 0);
  }
}

TEST_CASE("store: a link in place of the file is not followed") {
  test::temporary_directory dir;
  REQUIRE(write_file(dir / "elsewhere", {}));
  REQUIRE(::symlink((dir / "elsewhere").c_str(), (dir / facts_file).c_str())
          == 0);
  CHECK_FALSE(open_store(test::disk_at(dir.path())));
}
