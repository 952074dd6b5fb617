// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "runtime/store/durable_table.hpp"

using namespace millrace;

namespace {

/// A store that keeps the calls, and completes none by itself.
struct recording_store : store {
  struct call {
    std::string key, value;
    uint64_t expected;
    friend bool operator==(const call&, const call&) = default;
  };

  void load(std::string, loaded) override {}
  void put(std::string, std::string key, std::string value, uint64_t expected,
           written) override {
    calls.push_back({std::move(key), std::move(value), expected});
  }

  std::vector<call> calls;
};

/// A change is a text KEY=VALUE; an empty text is dropped when its turn comes.
struct texts_on_disk {
  using call = recording_store::call;

  std::shared_ptr<recording_store> facts = std::make_shared<recording_store>();
  durable_table<std::string> table{
    facts,
    3,
    [](std::string& text) -> std::optional<row_write> {
      if (text.empty())
        return std::nullopt;
      auto at = text.find('=');
      return row_write{"t", text.substr(0, at), text.substr(at + 1)};
    },
    {}};

  std::vector<call>& calls() { return facts->calls; }
  std::string finish(const result<uint64_t>& version) {
    auto out = table.finish(version);
    table.go_on();
    return out;
  }
};

} // namespace

TEST_CASE("durable_table: changes before the start wait for it") {
  texts_on_disk x;
  x.table.push("a=1");
  CHECK(x.calls().empty());
  x.table.on_read("t", {"a", "0", 7});
  x.table.start();
  CHECK(x.calls() == std::vector<texts_on_disk::call>{{"a", "1", 7}});
}

TEST_CASE("durable_table: one change at a time is written in order") {
  texts_on_disk x;
  x.table.start();
  x.table.push("a=1");
  x.table.push("b=2");
  CHECK(x.calls().size() == 1);
  CHECK(x.table.pending().size() == 2);
  CHECK(x.finish(1) == "a=1");
  REQUIRE(x.calls().size() == 2);
  CHECK(x.calls()[1] == texts_on_disk::call{"b", "2", 0});
}

TEST_CASE("durable_table: a write expects the version of the write before") {
  texts_on_disk x;
  x.table.start();
  x.table.push("a=1");
  x.finish(1);
  x.table.push("a=2");
  CHECK(x.calls().back().expected == 1);
  x.finish(error{ec::unavailable, "the disk failed"});
  x.table.push("a=3");
  CHECK(x.calls().back().expected == 1); // the failed write has no version
  x.finish(2);
  x.table.push("a="); // deletes the row
  CHECK(x.calls().back().expected == 2);
  x.finish(3);
  x.table.push("a=4");
  CHECK(x.calls().back().expected == 0);
}

TEST_CASE("durable_table: a change without a row is dropped") {
  texts_on_disk x;
  x.table.start();
  x.table.push("");
  x.table.push("a=1");
  CHECK(x.calls() == std::vector<texts_on_disk::call>{{"a", "1", 0}});
  CHECK(x.table.pending().size() == 1);
}

TEST_CASE("durable_table: a change put in front is written next") {
  texts_on_disk x;
  x.table.start();
  x.table.push("a=1");
  x.table.push("b=2");
  x.table.finish(1);
  x.table.push_front("c=3");
  x.table.go_on();
  CHECK(x.calls().back().key == "c");
}

TEST_CASE("durable_table: a queue of the maximal size is full") {
  texts_on_disk x;
  for (auto* text : {"a=1", "b=2"})
    x.table.push(text);
  CHECK_FALSE(x.table.is_full());
  x.table.push("c=3");
  CHECK(x.table.is_full());
}
