// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "millrace/print.hpp"
#include "shell/completion.hpp"
#include "shell/words.hpp"
#include "trace/trace_file.hpp"

using namespace millrace;

using words = std::vector<std::string>;

TEST_CASE("shell: a line is split into words and quotes keep words together") {
  struct row {
    std::string line;
    words expected;
  };
  for (auto& x :
       std::vector<row>{{"", {}},
                        {"  \t ", {}},
                        {"load  digits\t2", {"load", "digits", "2"}},
                        {"explain 'my request'", {"explain", "my request"}},
                        {R"(explain "a 'b' c")", {"explain", "a 'b' c"}},
                        {R"(explain a\ b)", {"explain", "a b"}},
                        {R"(explain 'a\b')", {"explain", R"(a\b)"}},
                        {"explain ''", {"explain", ""}},
                        {"a'b'\"c\"", {"abc"}},
                        {"# all of it", {}},
                        {"nodes # the rest", {"nodes"}},
                        {"explain a#1", {"explain", "a#1"}},
                        {"a\\", {"a\\"}}}) {
    CAPTURE(x.line);
    auto found = words_of(x.line);
    REQUIRE(found);
    CHECK(*found == x.expected);
  }
}

TEST_CASE("shell: a line with an open quote or too many words is refused") {
  CHECK(words_of("explain 'a").failure().text == "a ' that is not closed");
  CHECK(words_of("explain \"a").failure().text == "a \" that is not closed");
  CHECK(words_of(std::string(5000, 'x')).failure().code == ec::bad_request);
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "x ";
  CHECK(words_of(many).failure().text == "65 words; expected at most 64");
}

TEST_CASE("shell: an argument is completed by its kind") {
  using enum argument;
  CHECK(kind_of_next({}) == command);
  CHECK(kind_of_next({"actors"}) == node);
  CHECK(kind_of_next({"load"}) == model);
  CHECK(kind_of_next({"load", "digits"}) == other);
  CHECK(kind_of_next({"log"}) == level);
  CHECK(kind_of_next({"log", "info"}) == node);
  CHECK(kind_of_next({"help"}) == command);
  CHECK(kind_of_next({"watch"}) == watched);
  CHECK(kind_of_next({"watch", "2"}) == watched);
  CHECK(kind_of_next({"watch", "500ms"}) == watched);
  CHECK(kind_of_next({"trace", "2"}) == file);
  CHECK(kind_of_next({"watch", "2", "queue"}) == model);
  CHECK(kind_of_next({"no-such-thing"}) == other);
}

TEST_CASE("shell: a wrong call is answered with the usage of the command") {
  CHECK(command_of({"drain"}).failure().text
        == "usage: drain NODE; found no argument");
  CHECK(command_of({"nodes", "x"}).failure().text
        == "usage: nodes; found 1 argument(s)");
  CHECK(command_of({"dance"}).failure().text.starts_with(
    "no command 'dance'; there are status, top, "));
  CHECK((*command_of({"drain", "beta"}))->name == "drain");
}

TEST_CASE("shell: the help of a command fits a terminal of 80 columns") {
  size_t widest = 0;
  for (auto& x : shell_commands())
    widest = std::max(widest, x.name.size() + x.usage.size() + 5);
  for (auto& x : shell_commands()) {
    CAPTURE(x.name);
    CHECK(widest + x.help.size() <= 80);
  }
}

TEST_CASE("shell: a table that is too wide is wrapped into further lines") {
  table rows{{"NAME", "NODE", "WHY"},
             {"m.1.2", "beta", "the link timed out after 3 seconds"},
             {"m.1.3", "gamma", ""}};
  CHECK(
    table_text(rows)
    == "NAME   NODE   WHY\nm.1.2  beta   the link timed out after 3 seconds\n"
       "m.1.3  gamma\n");
  CHECK(table_text(rows, 40)
        == "NAME   NODE   WHY\nm.1.2  beta   the link timed out after 3\n"
           "              seconds\nm.1.3  gamma\n");
  // A further line without text is left out.
  CHECK(table_text(rows, 30)
        == "NAME   NODE\n    WHY\nm.1.2  beta\n    the link timed out after 3\n"
           "    seconds\nm.1.3  gamma\n");
  // Lines are about equally long.
  CHECK(table_text({{"ONE", "TWO", "THREE"},
                    {std::string(10, 'x'), "2", "3"},
                    {std::string(20, 'y'), std::string(10, 'z'), "3"}},
                   36)
        == "ONE\n    TWO         THREE\nxxxxxxxxxx\n    2           3\n"
           "yyyyyyyyyyyyyyyyyyyy\n    zzzzzzzzzz  3\n");
  CHECK(table_text({{"é", "x"}, {"ab", "y"}}) == "é   x\nab  y\n");
  CHECK(table_text({}, 10).empty());
}

TEST_CASE("shell: a sentence that is too wide is wrapped") {
  CHECK(wrapped("one two three", 0, 2) == "one two three");
  CHECK(wrapped("one two three", 10, 2) == "one two\n  three");
  CHECK(wrapped("one two", 9, 2) == "one two");
  CHECK(wrapped("x a-word-that-is-longer y", 9, 1)
        == "x\n a-word-t\n hat-is-l\n onger y");
  CHECK(wrapped("", 8, 1).empty());
}

TEST_CASE("trace: texts with quotes are valid JSON") {
  std::ostringstream out;
  {
    trace_file file{out};
    file.name_process(1, "a \"node\"\n");
    file.slice(1, 2, "x\\y", 1us, 3us, trace_member("note", "\"\x01"));
    file.flow(trace_file::arrow::begins, 1, 2, 7, 1us);
    file.flow(trace_file::arrow::ends, 1, 2, 7, 2us);
  }
  auto x = nlohmann::json::parse(out.str());
  REQUIRE(x["traceEvents"].size() == 4);
  CHECK(x["traceEvents"][0]["args"]["name"] == "a 'node''");
  CHECK(x["traceEvents"][1]["dur"] == 2);
  CHECK(x["traceEvents"][3]["bp"] == "e");
}

TEST_CASE(
  "trace: overlapping slices get separate tracks and others share one") {
  trace_rows rows;
  CHECK(rows.take(0us, 10us) == 0);
  CHECK(rows.take(5us, 20us) == 1);
  CHECK(rows.take(10us, 30us) == 0);
  CHECK(rows.take(15us, 30us) == 2);
  CHECK(rows.used() == 3);
}

TEST_CASE("shell: JSON has no control characters in texts and keys") {
  json x{{"a\x1b", {"b\u009b", json{{"c", "d\x07\xff"}, {"n", 1}}}},
         {"lines", "one\ntwo"}};
  CHECK(json_text(x)
        == R"({"a?":["b?",{"c":"d??","n":1}],"lines":"one\ntwo"})");
}
