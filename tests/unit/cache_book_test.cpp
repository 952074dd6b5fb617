// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "actors/cache/cache_book.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

using strings = std::vector<std::string>;

const timestamp start = timestamp{} + 1h;

/// One that is there and used by nobody.
void put(cache_book& x, const std::string& content, uint64_t bytes,
         double seconds, timestamp now) {
  REQUIRE(x.take(content, {bytes, seconds}, now));
  x.release(content, now);
}

} // namespace

TEST_CASE("cache_book: what nobody uses makes room, and no more of it than has"
          " to") {
  cache_book x{100, eviction::lru};
  put(x, "a", 10, 1, start);
  put(x, "b", 40, 1, start + 1s);
  put(x, "c", 40, 1, start + 2s);
  auto gone = x.take("d", {45}, start + 3s);
  REQUIRE(gone);
  CHECK(*gone
        == strings{"b"}); // a alone would not do, and beside b need not go
  CHECK(x.held() == 95);
}

TEST_CASE("QU-42: the least recently used goes first") {
  cache_book x{30, eviction::lru};
  put(x, "a", 10, 1, start);
  put(x, "b", 10, 1, start + 1s);
  put(x, "c", 10, 1, start + 2s);
  put(x, "a", 10, 1, start + 3s); // a hit is a use
  CHECK(*x.take("d", {10}, start + 4s) == strings{"b"});
  CHECK(x.shrink_to(20, start + 5s) == strings{"c"});
}

TEST_CASE("cache_book: what costs little to get again goes first") {
  cache_book x{30, eviction::cost};
  put(x, "slow", 10, 40, start);
  put(x, "quick", 10, 1, start + 1s);
  put(x, "other", 10, 40, start + 2s);
  CHECK(*x.take("d", {10}, start + 10s) == strings{"quick"});
}

TEST_CASE("FP-40: what was loaded from goes before what was loaded") {
  cache_book x{30, eviction::cost};
  REQUIRE(x.take("process", {10, 0.1, false, true}, start));
  x.release("process", start);
  put(x, "binary", 10, 100, start + 50s);
  put(x, "another", 10, 100, start + 50s);
  auto gone = x.take("d", {20}, start + 60s);
  REQUIRE(gone);
  CHECK(*gone == strings{"another", "binary"});
}

TEST_CASE("cache_book: what is in use stays, and who finds no room hears so") {
  cache_book x{30, eviction::cost};
  REQUIRE(x.take("a", {20}, start));
  put(x, "b", 10, 1, start);
  auto none = x.take("c", {20}, start);
  REQUIRE_FALSE(none);
  CHECK(none.failure().code == ec::overloaded);
  CHECK(x.has("b")); // nothing goes in vain
  x.release("a", start);
  CHECK(x.take("c", {20}, start + 1s));
}

TEST_CASE(
  "I12: what comes to take more finds room for it, or hears that there is"
  " none") {
  cache_book x{100, eviction::lru};
  REQUIRE(x.take("a", {40, 1}, start));
  put(x, "b", 50, 1, start);
  CHECK(x.grow("a", 30, start)->empty()); // it takes more already
  CHECK(x.held() == 90);
  auto gone = x.grow("a", 80, start);
  REQUIRE(gone);
  CHECK(*gone == strings{"b"});
  CHECK(x.held() == 80);
  CHECK(x.grow("a", 101, start).failure().code == ec::overloaded);
  CHECK(x.held() == 80);
  CHECK(x.users_of("a") == 1);
}

TEST_CASE("I19: a last copy that nobody could give again stays") {
  cache_book x{20, eviction::lru};
  REQUIRE(x.take("a", {10, 1, true}, start));
  x.release("a", start);
  put(x, "b", 10, 1, start + 1s);
  CHECK(*x.take("c", {10}, start + 2s) == strings{"b"});
  x.release("c", start + 2s);
  CHECK_FALSE(x.take("d", {20}, start + 3s));
  x.keep_last({}); // another host has it now
  CHECK(x.take("d", {20}, start + 4s));
}

TEST_CASE("I12: a tier is never over its capacity, and none goes that is in"
          " use") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    random_stream random{seed};
    auto by = random.below(2) == 0 ? eviction::cost : eviction::lru;
    auto capacity = 50 + random.below(100);
    cache_book x{capacity, by};
    std::map<std::string, uint64_t> users;
    auto now = start;
    for (int step = 0; step < 200; ++step) {
      now += microseconds{random.below(2'000'000)};
      auto content = "c" + std::to_string(random.below(12));
      if (random.below(2) == 0) {
        auto gone = x.take(
          content,
          {1 + random.below(60), random.uniform() * 10, random.below(9) == 0},
          now);
        if (gone) {
          ++users[content];
          for (auto& y : *gone) {
            CHECK(users[y] == 0);
            CHECK_FALSE(x.has(y));
          }
        }
      } else if (users[content] > 0) {
        --users[content];
        x.release(content, now);
      }
      CHECK(x.held() <= capacity);
      for (auto& [y, n] : users)
        if (n > 0)
          CHECK(x.users_of(y) == n);
    }
  }
}
