// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <future>
#include <sys/resource.h>
#include <thread>

#include "actors/node/restart_budget.hpp"
#include "runtime/bytes.hpp"
#include "runtime/deadline_queue.hpp"
#include "runtime/hash.hpp"
#include "runtime/http_server.hpp"
#include "runtime/log.hpp"
#include "runtime/name.hpp"
#include "runtime/random.hpp"
#include "runtime/text.hpp"
#include "runtime/units.hpp"
#include "runtime/worker_thread.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/temporary_directory.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("units: durations are read only with their unit") {
  CHECK(*parse_duration("20ms") == 20ms);
  CHECK(*parse_duration("1.5s") == 1500ms);
  CHECK(*parse_duration("100us") == 100us);
  CHECK(*parse_duration("2 min") == 2min);
  CHECK(*parse_duration("0s") == 0us);
  CHECK(*parse_duration("0") == 0us);
  CHECK_FALSE(parse_duration("1"));
  for (auto text : {"", "20", "ms", "-1s", "1 year", "nan s", "1e40s", "5ss"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text));
  }
}

TEST_CASE("units: sizes are decimal or binary") {
  CHECK(parse_bytes("4096")->value == 4096);
  CHECK(parse_bytes("64MiB")->value == 64u << 20);
  CHECK(parse_bytes("1.5 GB")->value == 1'500'000'000);
  CHECK_FALSE(parse_bytes("-1B"));
  CHECK_FALSE(parse_bytes("1 QiB"));
}

TEST_CASE("units: a refused quantity is reported with an example") {
  auto x = parse_duration("soon");
  CHECK(x.failure().text
        == "'soon' does not begin with a number (expected like 20ms)");
}

TEST_CASE("units: values are printed in a readable unit") {
  CHECK(format_duration(230us) == "230 us");
  CHECK(format_duration(12'500us) == "12.5 ms");
  CHECK(format_duration(3200ms) == "3.2 s");
  CHECK(format_duration(90min) == "90 min");
  CHECK(format_duration(24h) == "24 h");
  CHECK(format_seconds(0.0032) == "3.2 ms");
  CHECK(format_seconds(1e300) == "over 200 years");
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1536) == "1.5 KiB");
}

TEST_CASE("name: a name has only characters that are safe in paths and "
          "addresses and labels") {
  for (auto name : {"a", "digits-small", "v1.2_b", "0x"})
    CHECK(check_name("model", name));
  for (auto name :
       {"", "A", "-a", "a/b", "a..b", "..", "a b", "\xc3\xa9", ".hidden"}) {
    CAPTURE(name);
    CHECK_FALSE(check_name("model", name));
  }
  CHECK(check_name("model", std::string(64, 'a')));
  CHECK_FALSE(check_name("model", std::string(65, 'a')));
}

TEST_CASE("text: external text is printed escaped and truncated") {
  CHECK(shown("plain") == "'plain'");
  CHECK(shown(std::string{"a\n\x01\x00", 4}) == "'a\\x0a\\x01\\x00'");
  CHECK(shown("abcdef", 3) == "'abc...'");
}

TEST_CASE("text: a name is truncated between characters") {
  CHECK(first_of("abcdef", 3) == "abc");
  CHECK(first_of("abc", 3) == "abc");
  CHECK(first_of("a\u00e9b", 2) == "a");
  CHECK(first_of("a\u00e9b", 3) == "a\u00e9");
  CHECK(first_of("\u20ac", 2) == "");
}

TEST_CASE(
  "text: external text is printed as UTF-8 without control characters") {
  struct row {
    std::string text, printed;
  };
  for (auto& x : {row{"plain\nlines", "plain\nlines"}, row{"\x1b[2J", "?[2J"},
                  row{"bell\x07 del\x7f tab\t", "bell? del? tab?"},
                  row{"\u00e9 \u20ac \U0001f600", "\u00e9 \u20ac \U0001f600"},
                  row{"\xc2\x9b"
                      "31m",
                      "?31m"}, // the one-character form of ESC [
                  row{"\xff\xc0\xaf", "???"}, row{"\xe2\x82", "??"},
                  row{"\xed\xa0\x80", "???"}, row{"\xf4\x90\x80\x80", "????"},
                  row{std::string{"\0", 1}, "?"}, row{"", ""}}) {
    CAPTURE(x.printed);
    CHECK(printable(x.text) == x.printed);
  }
}

TEST_CASE("random: a fork depends on seed and name and not on earlier draws") {
  random_stream a{7};
  auto before = a.fork("x").next();
  a.next();
  CHECK(a.fork("x").next() == before);
  CHECK(a.fork("y").next() != before);
  CHECK(random_stream{8}.fork("x").next() != before);
}

TEST_CASE("random: below stays below and reaches every value") {
  random_stream a{1};
  std::array<int, 5> seen{};
  for (int i = 0; i < 500; ++i)
    ++seen[a.below(5)];
  for (auto n : seen)
    CHECK(n > 50);
}

TEST_CASE(
  "deadline_queue: due entries are returned in order even if they have ended") {
  deadline_queue<int> q;
  q.push(at(3s), 3);
  q.push(at(1s), 1);
  q.push(far_future, 9);
  q.push(at(2s), 2);
  CHECK(q.next_due() == at(1s));
  std::vector<int> due;
  q.take_due(at(2s), [&](int x) { due.push_back(x); });
  CHECK(due == std::vector{1, 2});
  CHECK(q.next_due() == at(3s));
}

TEST_CASE("deadline_queue: ended entries are swept out and memory is bounded") {
  deadline_queue<int> q;
  for (int i = 0; i < 100'000; ++i) {
    q.push(at(seconds{i}), i);
    q.sweep(1, [&](int x) { return x == i; });
  }
  CHECK(q.size() <= 1026);
}

TEST_CASE("restart_budget: a crash is forgiven after the window and too many "
          "crashes are not") {
  restart_budget b{3, 60s};
  CHECK(b.on_crash(at(0s)) == microseconds{0});
  CHECK(b.on_crash(at(1s)) == microseconds{50ms});
  CHECK(b.on_crash(at(2s)) == microseconds{100ms});
  CHECK(b.on_crash(at(3s)) == std::nullopt);
  CHECK(b.on_crash(at(200s)) == microseconds{0});
}

TEST_CASE("bytes: a file is replaced as a whole and mapped unchanged") {
  temporary_directory dir;
  auto text = std::string{"hello"};
  REQUIRE(write_file(dir / "a", std::as_bytes(std::span{text})));
  REQUIRE(write_file(dir / "a", std::as_bytes(std::span{text})));
  CHECK(map_file(dir / "a")->content.text() == "hello");
  CHECK(*read_file(dir / "a", 5) == "hello");
  CHECK(read_file(dir / "a", 4).failure().code == ec::too_large);
  CHECK(map_file(dir / "b").failure().text.find("No such file")
        != std::string::npos);
  CHECK_FALSE(map_file(dir.path()));
}

TEST_CASE("bytes: a slice keeps its owner alive") {
  shared_bytes part;
  {
    auto whole = shared_bytes::copy_of("abcdef");
    part = whole.slice(2, 3);
  }
  CHECK(part.text() == "cde");
}

TEST_CASE("hash: SHA-256 of the standard's example is correct") {
  auto x = shared_bytes::copy_of("abc");
  CHECK(sha256_hex(x.view())
        == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("log: an event is one line with values quoted where needed") {
  std::string line;
  set_log_sink([&](log_level, std::string_view x) { line = x; });
  log_event(log_level::info, "bus", "peer_up",
            {{"node", "n1"}, {"why", "two \"words\""}, {"n", 3}});
  set_log_sink({});
  CHECK(line == R"(bus.peer_up node=n1 why="two \"words\"" n=3)");
}

TEST_CASE("http_server: an invalid address is refused by name") {
  for (auto address : {"nowhere", "127.0.0.1:99999", "127.0.0.1:", "[::1]:1"}) {
    CAPTURE(address);
    auto x = http_server::listen(address, {});
    REQUIRE_FALSE(x);
    CHECK(x.failure().code == ec::bad_config);
    CHECK(x.failure().text.find(address) != std::string::npos);
  }
}

TEST_CASE("number_in: a number must span the whole text") {
  CHECK(number_in<int64_t>("-12") == -12);
  CHECK(number_in<double>("0.5") == 0.5);
  for (auto x : {"", "12x", " 12", "+12", "0x10", "99999"})
    CHECK(number_in<int16_t>(x) == std::nullopt);
}

TEST_CASE("worker_thread: the least priority holds only for its own thread") {
  auto niceness = [](thread_priority x) {
    std::promise<int> out;
    worker_thread thread{"test", x};
    thread.post([&] { out.set_value(::getpriority(PRIO_PROCESS, 0)); });
    return out.get_future().get();
  };
  auto mine = ::getpriority(PRIO_PROCESS, 0);
  CHECK(niceness(thread_priority::least) == 19);
  CHECK(niceness(thread_priority::normal) == mine);
  CHECK(::getpriority(PRIO_PROCESS, 0) == mine);
}

TEST_CASE("log: values from clients and nodes have no control characters") {
  std::string line;
  set_log_sink([&](log_level, std::string_view x) { line = x; });
  log_event(log_level::info, "bus", "stranger",
            {{"node", "a\x1b[2J"},
             {"why", "two\nlines\x07"},
             {"name", "\u009b"
                      "31m\xff"}});
  set_log_sink({});
  CHECK(line == R"(bus.stranger node=a?[2J why="two\nlines?" name=?31m?)");
}

TEST_CASE("text: a plain text is one line without control characters") {
  for (auto x : {"", "m.1-2_3", "a b", "\u00e9\u20ac"})
    CHECK(is_plain(x));
  for (auto x : {"a\x1b", "a\nb", "\t", "\x7f", "\u0080", "\u009f", "\xff"}) {
    CAPTURE(shown(x));
    CHECK_FALSE(is_plain(x));
  }
  CHECK(check_plain("trace id", "t-1"));
  auto x = check_plain("trace id", "t\x1b[2J");
  REQUIRE_FALSE(x);
  CHECK(x.failure().code == ec::bad_request);
  CHECK(x.failure().text.starts_with("trace id 't\\x1b[2J' has control"));
}
