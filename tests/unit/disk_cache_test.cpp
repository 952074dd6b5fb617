// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/cache/disk_cache.hpp"

using namespace millrace;

namespace {

using strings = std::vector<std::string>;

const timestamp opened_at = timestamp{} + 1h;

model_info of(const std::string& content, uint64_t bytes) {
  model_info out;
  out.content = content;
  out.bytes = bytes;
  return out;
}

} // namespace

TEST_CASE("disk_cache: any content may be present until the disk was listed") {
  disk_cache x{100, eviction::lru, [] { return opened_at; }};
  CHECK(x.may_have("a"));
  CHECK_FALSE(x.has("a"));
  CHECK(x.adopt({{of("a", 10), 1s}}).empty());
  CHECK(x.has("a"));
  CHECK(x.may_have("a"));
  CHECK_FALSE(x.may_have("b"));
}

TEST_CASE("disk_cache: of the contents found on disk the most recently used "
          "ones keep their room") {
  disk_cache x{100, eviction::lru, [] { return opened_at; }};
  CHECK(x.adopt({{of("new", 40), 1s},
                 {of("old", 60), 1h},
                 {of("middle", 50), 1min},
                 {of("huge", 101), 2h}})
        == strings{"huge", "old"});
  CHECK_FALSE(x.has("old"));
  auto gone = x.begin(of("next", 30)); // 90 bytes are in use
  REQUIRE(gone);
  CHECK(*gone == strings{"middle"});
}

TEST_CASE(
  "disk_cache: a content is present after it is written and not before") {
  disk_cache x{100, eviction::lru, [] { return opened_at; }};
  x.adopt({});
  REQUIRE(x.begin(of("a", 60)));
  CHECK_FALSE(x.has("a"));
  auto again = x.begin(of("a", 60));
  REQUIRE_FALSE(again);
  CHECK(again.failure().code == ec::conflict);
  auto other = x.begin(of("b", 60)); // a content that is being written stays
  REQUIRE_FALSE(other);
  CHECK(other.failure().code == ec::overloaded);
  x.end("a", true);
  CHECK(x.has("a"));
  CHECK(x.all().size() == 1);
  x.end("a", false); // no write is in progress
  CHECK(x.has("a"));
}

TEST_CASE("disk_cache: a failed write or a dropped content frees its room") {
  disk_cache x{100, eviction::lru, [] { return opened_at; }};
  x.adopt({{of("a", 60), 1s}});
  auto gone = x.begin(of("b", 60));
  REQUIRE(gone);
  CHECK(*gone == strings{"a"});
  x.end("b", false);
  CHECK_FALSE(x.has("a")); // evicted for b
  CHECK_FALSE(x.has("b"));
  CHECK(x.book().held() == 0);
  REQUIRE(x.begin(of("c", 100)));
  x.end("c", true);
  x.drop("c");
  CHECK_FALSE(x.has("c"));
  CHECK(x.book().held() == 0);
}

TEST_CASE("disk_cache: a content in use is not evicted") {
  disk_cache x{100, eviction::lru, [] { return opened_at; }};
  x.adopt({{of("a", 60), 1s}});
  {
    auto user = x.book().use("a");
    REQUIRE(user);
    CHECK_FALSE(x.begin(of("b", 60)));
  }
  CHECK(x.begin(of("b", 60)));
}
