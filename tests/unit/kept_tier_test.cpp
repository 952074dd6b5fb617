// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/cache/kept_tier.hpp"

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

TEST_CASE("kept_tier: anything may be there until it is known what is") {
  kept_tier x{100, eviction::lru};
  CHECK(x.may_have("a"));
  CHECK_FALSE(x.has("a"));
  CHECK(x.adopt({{of("a", 10), 1s}}, opened_at).empty());
  CHECK(x.has("a"));
  CHECK(x.may_have("a"));
  CHECK_FALSE(x.may_have("b"));
}

TEST_CASE("kept_tier: of what was there before, what was used last has room") {
  kept_tier x{100, eviction::lru};
  CHECK(x.adopt({{of("new", 40), 1s},
                 {of("old", 60), 1h},
                 {of("middle", 50), 1min},
                 {of("huge", 101), 2h}},
                opened_at)
        == strings{"huge", "old"});
  CHECK_FALSE(x.has("old"));
  auto gone = x.begin(of("next", 30), opened_at); // beside 90
  REQUIRE(gone);
  CHECK(*gone == strings{"middle"});
}

TEST_CASE("kept_tier: one is there once it is written, and not before") {
  kept_tier x{100, eviction::lru};
  x.adopt({}, opened_at);
  REQUIRE(x.begin(of("a", 60), opened_at));
  CHECK_FALSE(x.has("a"));
  auto again = x.begin(of("a", 60), opened_at);
  REQUIRE_FALSE(again);
  CHECK(again.failure().code == ec::conflict);
  auto other = x.begin(of("b", 60), opened_at + 1s); // what is written stays
  REQUIRE_FALSE(other);
  CHECK(other.failure().code == ec::overloaded);
  x.end("a", true, opened_at + 2s);
  CHECK(x.has("a"));
  CHECK(x.all().size() == 1);
  x.end("a", false, opened_at + 2s); // nobody writes it
  CHECK(x.has("a"));
}

TEST_CASE("kept_tier: what cannot be written, or is dropped, leaves its room") {
  kept_tier x{100, eviction::lru};
  x.adopt({{of("a", 60), 1s}}, opened_at);
  auto gone = x.begin(of("b", 60), opened_at);
  REQUIRE(gone);
  CHECK(*gone == strings{"a"});
  x.end("b", false, opened_at);
  CHECK_FALSE(x.has("a")); // whose place it was to have
  CHECK_FALSE(x.has("b"));
  CHECK(x.book().held() == 0);
  REQUIRE(x.begin(of("c", 100), opened_at));
  x.end("c", true, opened_at);
  x.drop("c");
  CHECK_FALSE(x.has("c"));
  CHECK(x.book().held() == 0);
}

TEST_CASE("kept_tier: what somebody uses stays") {
  kept_tier x{100, eviction::lru};
  x.adopt({{of("a", 60), 1s}}, opened_at);
  REQUIRE(x.book().take("a", {}, opened_at));
  CHECK_FALSE(x.begin(of("b", 60), opened_at));
  x.book().release("a", opened_at);
  CHECK(x.begin(of("b", 60), opened_at));
}
