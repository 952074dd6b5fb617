// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "actors/cache/cache_book.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

using strings = std::vector<std::string>;

const timestamp start = timestamp{} + 1h;

/// A cache book with a clock that the test sets.
struct timed_book {
  timed_book(uint64_t capacity, eviction by)
    : book(capacity, by, [this] { return now; }) {}

  timestamp now = start;
  cache_book book;

  /// Adds a content without users.
  void put(const std::string& content, uint64_t bytes, double seconds) {
    REQUIRE(book.take(content, {bytes, seconds}));
  }

  /// Contents evicted for a content of `bytes`.
  strings what_goes_for(const std::string& content, uint64_t bytes) {
    auto done = book.take(content, {bytes});
    REQUIRE(done);
    return done->gone;
  }
};

} // namespace

TEST_CASE("cache_book: unused contents are evicted only as far as the space is "
          "needed") {
  timed_book x{100, eviction::lru};
  x.put("a", 10, 1);
  x.now += 1s;
  x.put("b", 40, 1);
  x.now += 1s;
  x.put("c", 40, 1);
  // evicting b is enough; evicting a is not
  CHECK(x.what_goes_for("d", 45) == strings{"b"});
  CHECK(x.book.held() == 95);
}

TEST_CASE("QU-42: the least recently used content is evicted first") {
  timed_book x{30, eviction::lru};
  for (auto content : {"a", "b", "c", "a"}) { // a hit counts as a use
    x.put(content, 10, 1);
    x.now += 1s;
  }
  CHECK(x.what_goes_for("d", 10) == strings{"b"});
  x.now += 1s;
  CHECK(x.book.shrink_to(20) == strings{"c"});
}

TEST_CASE("QU-42: the end of a use counts as the last use") {
  timed_book x{30, eviction::lru};
  {
    auto user = x.book.take("a", {10});
    REQUIRE(user);
    x.now += 1s;
    x.put("b", 10, 1);
    x.now += 1s;
  }
  x.put("c", 10, 1);
  CHECK(x.what_goes_for("d", 10) == strings{"b"});
}

TEST_CASE(
  "cache_book: a content that is cheap to fetch again is evicted first") {
  timed_book x{30, eviction::cost};
  x.put("slow", 10, 40);
  x.now += 1s;
  x.put("quick", 10, 1);
  x.now += 1s;
  x.put("other", 10, 40);
  x.now += 8s;
  CHECK(x.what_goes_for("d", 10) == strings{"quick"});
}

TEST_CASE("FP-40: a content that no process has loaded is evicted before a "
          "loaded one regardless of cost") {
  timed_book x{30, eviction::cost};
  {
    auto process = x.book.take("loaded", {10, 0.1});
    REQUIRE(process);
    x.now += 50s;
    x.put("binary", 10, 100);
    x.put("another", 10, 100);
    x.now += 10s;
    CHECK(x.what_goes_for("d", 20) == strings{"another", "binary"});
  }
  CHECK(x.what_goes_for("e", 30) == strings{"d", "loaded"});
}

TEST_CASE("cache_book: contents in use stay and a request without room fails "
          "with overloaded") {
  timed_book x{30, eviction::cost};
  {
    auto user = x.book.take("a", {20});
    REQUIRE(user);
    x.put("b", 10, 1);
    auto none = x.book.take("c", {20});
    REQUIRE_FALSE(none);
    CHECK(none.failure().code == ec::overloaded);
    CHECK(x.book.has("b")); // nothing is evicted for a request that fails
  }
  x.now += 1s;
  CHECK(x.book.take("c", {20}));
}

TEST_CASE(
  "cache_book: a user of a dropped content is no user of its replacement") {
  timed_book x{30, eviction::lru};
  REQUIRE(x.book.take("a", {20}));
  auto user = x.book.use("a");
  x.book.drop("a");
  CHECK_FALSE(x.book.use("a"));
  CHECK(x.book.held() == 0);
  auto other = x.book.take("a", {20});
  REQUIRE(other);
  CHECK(x.book.users_of("a") == 1);
  user.reset();
  CHECK(x.book.users_of("a") == 1);
}

TEST_CASE(
  "I12: a content that grows evicts unused ones or fails with overloaded") {
  timed_book x{100, eviction::lru};
  auto user = x.book.take("a", {40, 1});
  REQUIRE(user);
  x.put("b", 50, 1);
  CHECK(x.book.grow("a", 30)->empty()); // it holds more already
  CHECK(x.book.held() == 90);
  auto gone = x.book.grow("a", 80);
  REQUIRE(gone);
  CHECK(*gone == strings{"b"});
  CHECK(x.book.held() == 80);
  CHECK(x.book.grow("a", 101).failure().code == ec::overloaded);
  CHECK(x.book.held() == 80);
  CHECK(x.book.users_of("a") == 1);
}

TEST_CASE("I19: a last copy that no other host has is not evicted") {
  timed_book x{20, eviction::lru};
  REQUIRE(x.book.take("a", {10, 1, true}));
  x.now += 1s;
  x.put("b", 10, 1);
  x.now += 1s;
  CHECK(x.what_goes_for("c", 10) == strings{"b"});
  CHECK_FALSE(x.book.take("d", {20}));
  x.book.keep_last({}); // another host has a copy now
  CHECK(x.book.take("d", {20}));
}

TEST_CASE(
  "I12: a tier never exceeds its capacity and evicts no content in use") {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    CAPTURE(seed);
    random_stream random{seed};
    auto by = random.below(2) == 0 ? eviction::cost : eviction::lru;
    auto capacity = 50 + random.below(100);
    timed_book x{capacity, by};
    std::map<std::string, std::vector<cache_book::lease>> users;
    for (int step = 0; step < 200; ++step) {
      x.now += microseconds{random.below(2'000'000)};
      auto content = "c" + std::to_string(random.below(12));
      if (random.below(2) == 0) {
        auto done =
          x.book.take(content, {1 + random.below(60), random.uniform() * 10,
                                random.below(9) == 0});
        if (done) {
          users[content].push_back(std::move(done->in_use));
          for (auto& y : done->gone) {
            CHECK(users[y].empty());
            CHECK_FALSE(x.book.has(y));
          }
        }
      } else if (!users[content].empty()) {
        users[content].pop_back();
      }
      CHECK(x.book.held() <= capacity);
      for (auto& [y, its] : users)
        if (!its.empty())
          CHECK(x.book.users_of(y) == its.size());
    }
  }
}
