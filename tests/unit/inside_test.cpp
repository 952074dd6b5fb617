// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "actors/gateway/notable_requests.hpp"
#include "runtime/event_memory.hpp"
#include "runtime/host_examination.hpp"
#include "runtime/spans.hpp"
#include "runtime/store/kept_log.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;

namespace {

constexpr timestamp start{100s};

request_story story(uint64_t number, microseconds total, ec status = ec::ok,
                    std::string trace = {}) {
  request_story out;
  out.number = number;
  out.total = total;
  out.status = status;
  out.trace = std::move(trace);
  return out;
}

std::vector<uint64_t> numbers(const std::vector<request_story>& xs) {
  std::vector<uint64_t> out;
  for (auto& x : xs)
    out.push_back(x.number);
  return out;
}

} // namespace

TEST_CASE("explain: the slowest of the successful requests are kept") {
  notable_requests x;
  auto most = notable_requests::slow_most;
  for (uint64_t i = 1; i <= 3 * most; ++i) {
    auto total = microseconds{i * 7919 % 100};
    if (x.is_slow(total, start))
      x.keep(story(i, total), start, start);
  }
  auto kept = x.find("", start);
  REQUIRE(kept.size() == most);
  auto quickest =
    std::min_element(kept.begin(), kept.end(),
                     [](auto& a, auto& b) { return a.total < b.total; });
  size_t slower = 0;
  for (uint64_t i = 1; i <= 3 * most; ++i)
    slower += microseconds{i * 7919 % 100} > quickest->total;
  CHECK(slower < most);
  CHECK(!x.is_slow(quickest->total, start));
  CHECK(x.is_slow(quickest->total + 1us, start));
}

TEST_CASE("explain: slow requests are kept for their minute and the next") {
  notable_requests x;
  x.keep(story(1, 50us), start, start);
  auto later = start + notable_requests::window;
  CHECK(x.is_slow(1us, later)); // in a new minute any request is the slowest
  x.keep(story(2, 1us), later, later);
  CHECK(numbers(x.find("", later)) == std::vector<uint64_t>{2, 1});
  auto last = later + notable_requests::window;
  CHECK(x.is_slow(1us, last));
  CHECK(numbers(x.find("", last)) == std::vector<uint64_t>{2});
  CHECK(x.is_slow(1us, last + 10 * notable_requests::window));
  CHECK(x.find("", last + 10 * notable_requests::window).empty());
}

TEST_CASE("explain: only the last failed and named requests are kept") {
  notable_requests x;
  for (uint64_t i = 1; i <= 100; ++i) {
    x.keep(story(i, 1us, ec::overloaded), start + microseconds{i}, start);
    x.keep(story(1000 + i, 1us, ec::ok, "n" + std::to_string(i)), start, start);
  }
  auto all = x.find("", start + 1s);
  CHECK(all.size()
        == notable_requests::troubled_most + notable_requests::named_most);
  CHECK(all.front().number == 100); // the newest
  CHECK(all.front().ago == 1s - 100us);
  CHECK(x.find("36", start).empty());
  CHECK(numbers(x.find("37", start)) == std::vector<uint64_t>{37});
  CHECK(numbers(x.find("n100", start)) == std::vector<uint64_t>{1100});
  CHECK(x.find("n1", start).empty());
  CHECK(x.find("no", start).empty());
}

TEST_CASE(
  "spans: at most the requested number is kept and the rest is counted") {
  span_recorder x;
  CHECK(!x.on());
  x.start(3);
  for (uint64_t i = 0; i < 5; ++i)
    x.add("router/", "m", "waits", start, start + 2us, i, 7);
  CHECK(x.size() == 3);
  CHECK(x.lost() == 2);
  auto some = x.kept(1, 10);
  REQUIRE(some.size() == 2);
  CHECK(some[0].track == "router/m");
  CHECK(some[0].request == 1);
  CHECK(some[0].from == 100s);
  CHECK(some[0].length == 2us);
  CHECK(x.kept(3, 10).empty());
  CHECK(x.kept(1000, 10).empty());
  x.stop();
  CHECK(!x.on());
  x.start(3);
  CHECK(x.size() == 0);
}

TEST_CASE("events: the last thousand are kept and forwarded") {
  event_memory x;
  std::vector<std::string> given;
  x.go_on_after({{"w", log_level::info, "of a life before"}},
                [&](auto& e) { given.push_back(e.text); });
  for (int i = 0; i < 999; ++i)
    x.add({"w", log_level::error, std::to_string(i)});
  CHECK(x.last(5000).size() == 1000);
  CHECK(x.last(5000).front().text == "of a life before");
  x.add({"w", log_level::error, "999"});
  CHECK(x.last(5000).front().text == "0");
  CHECK(x.last(2).front().text == "998");
  CHECK(given.size() == 1000);
  x.go_on_after({}, [&](auto& e) { // a listener may log an event itself
    if (e.text == "once")
      x.add({"w", log_level::error, "again"});
  });
  x.add({"w", log_level::error, "once"});
  CHECK(x.last(1).front().text == "again");
  CHECK(x.last(0).empty());
}

TEST_CASE("events: a stored line is read as the same event") {
  kept_event x{"2026-11-22T14:00:00.001Z", log_level::warning,
               "bus.peer_down node=beta reason=\"the link timed out\""};
  auto y = to_event(to_line(x));
  CHECK(y.when == x.when);
  CHECK(y.level == x.level);
  CHECK(y.text == x.text);
  for (auto* odd : {"", "x", "x y", "x y z"}) {
    CHECK(to_event(odd).when.empty());
    CHECK(to_event(odd).text == odd);
  }
}

TEST_CASE("events: stored events are available after a restart") {
  test::temporary_directory data;
  CHECK(read_kept_lines(event_directory(data.path())).failure().code
        == ec::unavailable);
  {
    auto log = open_kept_log(test::disk_at(event_directory(data.path())));
    REQUIRE(log);
    (*log)->keep("first");
  }
  {
    auto log = open_kept_log(test::disk_at(event_directory(data.path())));
    REQUIRE(log);
    (*log)->keep("second");
  }
  auto found = read_kept_lines(event_directory(data.path()));
  REQUIRE(found);
  CHECK(found->wrong.empty());
  CHECK(found->lines == std::vector<std::string>{"first", "second"});
}

TEST_CASE("doctor: each finding has a description and each problem an advice") {
  test::temporary_directory folder;
  auto found = examine_host(folder.path());
  auto has = [&](const char* what) {
    return std::any_of(found.begin(), found.end(),
                       [&](auto& x) { return x.what == what; });
  };
  CHECK(has("disk"));
  CHECK(has("open files"));
  CHECK(found.size() > 5);
  for (auto& x : found) {
    CAPTURE(x.what);
    CHECK(!x.found.empty());
    CHECK(x.advice.empty() == (x.how == verdict::good));
  }
}
