// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <map>

#include "actors/cache/cache_book.hpp"
#include "runtime/random.hpp"

using namespace millrace;

namespace {

using strings = std::vector<std::string>;

const timestamp start = timestamp{} + 1h;

/// A book, and the time as a test says it is.
struct timed_book {
  timed_book(uint64_t capacity, eviction by)
    : book(capacity, by, [this] { return now; }) {}

  timestamp now = start;
  cache_book book;

  /// One that is there and used by nobody.
  void put(const std::string& content, uint64_t bytes, double seconds) {
    REQUIRE(book.take(content, {bytes, seconds}));
  }

  /// What goes for one that takes so much.
  strings what_goes_for(const std::string& content, uint64_t bytes) {
    auto done = book.take(content, {bytes});
    REQUIRE(done);
    return done->gone;
  }
};

} // namespace

TEST_CASE("cache_book: what nobody uses makes room, and no more of it than has"
          " to") {
  timed_book x{100, eviction::lru};
  x.put("a", 10, 1);
  x.now += 1s;
  x.put("b", 40, 1);
  x.now += 1s;
  x.put("c", 40, 1);
  // a alone would not do, and beside b need not go
  CHECK(x.what_goes_for("d", 45) == strings{"b"});
  CHECK(x.book.held() == 95);
}

TEST_CASE("QU-42: the least recently used goes first") {
  timed_book x{30, eviction::lru};
  for (auto content : {"a", "b", "c", "a"}) { // a hit is a use
    x.put(content, 10, 1);
    x.now += 1s;
  }
  CHECK(x.what_goes_for("d", 10) == strings{"b"});
  x.now += 1s;
  CHECK(x.book.shrink_to(20) == strings{"c"});
}

TEST_CASE("QU-42: what was in use until now was used now") {
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

TEST_CASE("cache_book: what costs little to get again goes first") {
  timed_book x{30, eviction::cost};
  x.put("slow", 10, 40);
  x.now += 1s;
  x.put("quick", 10, 1);
  x.now += 1s;
  x.put("other", 10, 40);
  x.now += 8s;
  CHECK(x.what_goes_for("d", 10) == strings{"quick"});
}

TEST_CASE("FP-40: what no process has loaded goes before what one has, whatever"
          " it is worth") {
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

TEST_CASE("cache_book: what is in use stays, and who finds no room hears so") {
  timed_book x{30, eviction::cost};
  {
    auto user = x.book.take("a", {20});
    REQUIRE(user);
    x.put("b", 10, 1);
    auto none = x.book.take("c", {20});
    REQUIRE_FALSE(none);
    CHECK(none.failure().code == ec::overloaded);
    CHECK(x.book.has("b")); // nothing goes in vain
  }
  x.now += 1s;
  CHECK(x.book.take("c", {20}));
}

TEST_CASE("cache_book: whoever used one that was dropped does not use the one"
          " that comes in its place") {
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
  "I12: what comes to take more finds room for it, or hears that there is"
  " none") {
  timed_book x{100, eviction::lru};
  auto user = x.book.take("a", {40, 1});
  REQUIRE(user);
  x.put("b", 50, 1);
  CHECK(x.book.grow("a", 30)->empty()); // it takes more already
  CHECK(x.book.held() == 90);
  auto gone = x.book.grow("a", 80);
  REQUIRE(gone);
  CHECK(*gone == strings{"b"});
  CHECK(x.book.held() == 80);
  CHECK(x.book.grow("a", 101).failure().code == ec::overloaded);
  CHECK(x.book.held() == 80);
  CHECK(x.book.users_of("a") == 1);
}

TEST_CASE("I19: a last copy that nobody could give again stays") {
  timed_book x{20, eviction::lru};
  REQUIRE(x.book.take("a", {10, 1, true}));
  x.now += 1s;
  x.put("b", 10, 1);
  x.now += 1s;
  CHECK(x.what_goes_for("c", 10) == strings{"b"});
  CHECK_FALSE(x.book.take("d", {20}));
  x.book.keep_last({}); // another host has it now
  CHECK(x.book.take("d", {20}));
}

TEST_CASE("I12: a tier is never over its capacity, and none goes that is in"
          " use") {
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
