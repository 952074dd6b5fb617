// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "runtime/random.hpp"
#include "transport/bulk/pull_queue.hpp"
#include "transport/bulk/serve_queue.hpp"

using namespace millrace;

namespace {

using asks = std::vector<pull_queue::ask>;

serve_queue::gift gift(const std::string& link, size_t chunk) {
  return {link, {"c", chunk}};
}

/// All chunks that are sent now.
std::vector<serve_queue::gift> all_next(serve_queue& x, timestamp now = {}) {
  std::vector<serve_queue::gift> out;
  while (auto next = x.next(now, chunk_bytes))
    out.push_back(*next);
  return out;
}

} // namespace

TEST_CASE(
  "pull_queue: chunks are requested in order up to the window of each source") {
  pull_queue x{10};
  x.want({4, 6});
  x.want({0, 10});
  x.add(1, {3});
  CHECK(x.next() == asks{{1, 4}, {1, 5}, {1, 0}});
  CHECK(x.next().empty());
  CHECK(x.answered(1, 5));
  x.have(5);
  CHECK(x.next() == asks{{1, 1}});
  CHECK(x.missing() == 9);
}

TEST_CASE("pull_queue: chunks that are present are not requested") {
  pull_queue x{3};
  x.have(1);
  x.want({0, 3});
  x.add(1, {8});
  CHECK(x.next() == asks{{1, 0}, {1, 2}});
}

TEST_CASE("FP-62: a source with some chunks is asked for these chunks only") {
  pull_queue x{6};
  x.want({0, 6});
  x.add(1, {2, {{4, 6}}});
  x.add(2, {9, {{0, 1}, {2, 3}, {5, 6}}});
  CHECK(x.next() == asks{{1, 4}, {2, 0}, {1, 5}, {2, 2}});
  x.remove(1);
  CHECK(x.next() == asks{{2, 5}});
  x.add(3, {9});
  CHECK(x.next() == asks{{3, 1}, {3, 3}, {3, 4}});
}

TEST_CASE("pull_queue: several sources share the chunks") {
  pull_queue x{5};
  x.want({0, 5});
  x.add(1, {2});
  x.add(2, {2});
  CHECK(x.next() == asks{{1, 0}, {2, 1}, {1, 2}, {2, 3}});
  x.answered(2, 1);
  x.have(1);
  CHECK(x.next() == asks{{2, 4}});
}

TEST_CASE(
  "FP-49: chunks owed by a lost source are requested from the others first") {
  pull_queue x{6};
  x.want({0, 6});
  x.add(1, {3});
  CHECK(x.next().size() == 3);
  x.answered(1, 0);
  x.have(0);
  x.remove(1);
  x.add(2, {9});
  CHECK(x.next() == asks{{2, 1}, {2, 2}, {2, 3}, {2, 4}, {2, 5}});
}

TEST_CASE("P8: a corrupt chunk is requested again") {
  pull_queue x{2};
  x.want({0, 2});
  x.add(1, {1});
  x.next();
  REQUIRE(x.answered(1, 0));
  x.lack(0);
  CHECK(x.next() == asks{{1, 0}});
}

TEST_CASE("pull_queue: a chunk that was not requested is no answer") {
  pull_queue x{2};
  x.want({0, 1});
  x.add(1, {1});
  x.next();
  CHECK_FALSE(x.answered(1, 1));
  CHECK_FALSE(x.answered(2, 0));
  CHECK(x.answered(1, 0));
  CHECK_FALSE(x.answered(1, 0));
}

TEST_CASE("pull_queue: all chunks arrive and none arrives twice unless a "
          "source is lost") {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    CAPTURE(seed);
    random_stream random{seed};
    auto chunks = 1 + random.below(40);
    pull_queue x{chunks};
    x.want({0, chunks});
    std::vector<size_t> got(chunks);
    std::vector<pull_queue::ask> open;
    auto lost = false;
    for (int step = 0; !x.is_done(); ++step) {
      REQUIRE(step < 10'000);
      if (auto id = 1 + random.below(4); random.below(4) == 0)
        x.add(id, {1 + random.below(4)});
      else if (random.below(8) == 0) {
        lost |= x.owed_by(id) > 0;
        x.remove(id);
        std::erase_if(open, [&](auto& y) { return y.from == id; });
      }
      for (auto& y : x.next())
        open.push_back(y);
      if (open.empty())
        continue;
      auto at = random.below(open.size());
      auto y = open[at];
      open.erase(open.begin() + static_cast<ptrdiff_t>(at));
      REQUIRE(x.answered(y.from, y.chunk));
      ++got[y.chunk];
      x.have(y.chunk);
    }
    for (auto n : got)
      CHECK((lost ? n >= 1 : n == 1));
  }
}

TEST_CASE("serve_queue: a chunk is sent as soon as it is present") {
  serve_queue x{{}};
  CHECK(x.ask("a", {"c", 1}, transfer_rank::start, false));
  CHECK(x.ask("b", {"c", 1}, transfer_rank::start, false));
  CHECK(x.ask("a", {"c", 0}, transfer_rank::start, true));
  CHECK(all_next(x) == std::vector{gift("a", 0)});
  x.there({"c", 1});
  CHECK(all_next(x) == std::vector{gift("a", 1), gift("b", 1)});
}

TEST_CASE("serve_queue: chunks for starts are sent before completions and "
          "completions before prefetches") {
  serve_queue x{{.each = 9, .at_once = 9}};
  x.ask("a", {"c", 1}, transfer_rank::prefetch, true);
  x.ask("a", {"c", 2}, transfer_rank::completion, true);
  x.ask("a", {"c", 3}, transfer_rank::start, true);
  x.ask("b", {"c", 4}, transfer_rank::start, true);
  CHECK(all_next(x)
        == std::vector{gift("a", 3), gift("b", 4), gift("a", 2), gift("a", 1)});
}

TEST_CASE("serve_queue: chunks in flight to one receiver are limited "
          "independently of other receivers") {
  serve_queue x{{.each = 9, .at_once = 1}};
  for (size_t i = 0; i < 3; ++i) {
    x.ask("slow", {"c", i}, transfer_rank::start, true);
    x.ask("fast", {"c", i}, transfer_rank::start, true);
  }
  CHECK(all_next(x) == std::vector{gift("slow", 0), gift("fast", 0)});
  x.left("fast");
  CHECK(all_next(x) == std::vector{gift("fast", 1)});
  x.left("fast");
  CHECK(all_next(x) == std::vector{gift("fast", 2)});
  x.left("slow");
  CHECK(all_next(x) == std::vector{gift("slow", 1)});
}

TEST_CASE("serve_queue: a request beyond the limit of a receiver is refused") {
  serve_queue x{{.each = 2}};
  CHECK(x.ask("a", {"c", 0}, transfer_rank::start, false));
  CHECK(x.ask("a", {"c", 1}, transfer_rank::start, false));
  CHECK_FALSE(x.ask("a", {"c", 2}, transfer_rank::start, true));
  CHECK(x.ask("b", {"c", 2}, transfer_rank::start, true));
}

TEST_CASE(
  "serve_queue: a chunk is not sent once it is withdrawn or its link ended") {
  serve_queue x{{}};
  x.ask("a", {"c", 0}, transfer_rank::start, true);
  x.ask("b", {"c", 1}, transfer_rank::start, false);
  x.ask("b", {"d", 0}, transfer_rank::start, true);
  SUBCASE("withdrawn") {
    CHECK(x.withdraw("c") == std::set<std::string>{"a", "b"});
    x.there({"c", 1});
    CHECK(all_next(x).size() == 1);
  }
  SUBCASE("ended") {
    x.forget("b");
    x.there({"c", 1});
    CHECK(all_next(x) == std::vector{gift("a", 0)});
  }
}

TEST_CASE("serve_queue: chunks are sent at no more than the configured rate") {
  serve_queue x{{.each = 64, .at_once = 64, .per_second = 10.0 * chunk_bytes}};
  for (size_t i = 0; i < 60; ++i)
    x.ask("a", {"c", i}, transfer_rank::start, true);
  auto begin = timestamp{} + 1h;
  size_t sent = 0;
  for (auto now = begin; now < begin + 2s;) {
    sent += all_next(x, now).size();
    REQUIRE(x.next_due() > now);
    now = x.next_due();
  }
  CHECK(sent >= 20);
  CHECK(sent <= 22);
}
