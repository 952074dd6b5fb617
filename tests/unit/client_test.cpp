// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "client/silence_watch.hpp"
#include "client/unsent_frames.hpp"
#include "tests/support/builders.hpp"
#include "transport/messages/infer.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("silence watch: a connection without a message for a second before a"
          " timeout is dead") {
  silence_watch watch;
  CHECK_FALSE(watch.on_timeout(at(10s), at(10'900ms)));
  CHECK(watch.on_timeout(at(10s), at(11s)));
}

TEST_CASE("silence watch: a message after the request was sent keeps the"
          " connection") {
  silence_watch watch;
  watch.on_message(at(14'500ms));
  CHECK_FALSE(watch.on_timeout(at(10s), at(15s)));
  CHECK(watch.on_timeout(at(12s), at(15'500ms)));
}

TEST_CASE("silence watch: short timeouts add up until a message arrives") {
  silence_watch watch;
  CHECK_FALSE(watch.on_timeout(at(10s), at(10'300ms)));
  CHECK_FALSE(watch.on_timeout(at(10'300ms), at(10'600ms)));
  CHECK(watch.on_timeout(at(10'700ms), at(11s)));
  watch.on_message(at(11s));
  CHECK_FALSE(watch.on_timeout(at(11s), at(11'300ms)));
}

namespace {

/// A frame of these requests, written at 0 s with 10 s left each.
unsent_frame frame_of(std::vector<uint64_t> ids) {
  frame_writer out;
  for (auto id : ids) {
    header head;
    head.id = id;
    head.left = {at(10s)};
    infer x;
    x.model = "m" + std::to_string(id);
    x.inputs.push_back({"", floats({1, 1000}, static_cast<float>(id))});
    out.add(head, x, at(0s));
  }
  return {ids, out.take()};
}

} // namespace

TEST_CASE("unsent frames: the oldest frame is first and a frame that was put "
          "back is the oldest") {
  unsent_frames all;
  CHECK(all.empty());
  CHECK(all.push(frame_of({1, 2})));
  CHECK(all.push(frame_of({3})));
  auto first = all.pop();
  CHECK(first.ids == std::vector<uint64_t>{1, 2});
  all.put_back(std::move(first));
  CHECK(all.pop().ids.size() == 2);
  CHECK(all.pop().ids == std::vector<uint64_t>{3});
  CHECK(all.empty());
}

TEST_CASE("unsent frames: at most 100000 requests wait and further requests "
          "are dropped") {
  unsent_frames all;
  unsent_frame many{std::vector<uint64_t>(unsent_frames::requests_max - 1), {}};
  CHECK(all.push(many));
  CHECK_FALSE(all.push({{1, 2}, {}}));
  CHECK(all.push({{1}, {}}));
  CHECK_FALSE(all.push({{2}, {}}));
  all.clear();
  CHECK(all.push({{2}, {}}));
}

TEST_CASE("unsent frames: a frame is sent with the time left at sending and "
          "without settled requests") {
  auto frame = frame_of({1, 2, 3});
  auto due_of = [](uint64_t id) -> std::optional<timestamp> {
    return id == 2 ? std::nullopt : std::optional{at(10s)};
  };
  auto later = with_time_left(frame.content, at(4s), due_of);
  REQUIRE(later.raw.size() == 3);
  frame_reader in{later.first.view(), later.raw, at(100s)};
  for (uint64_t id : {1, 3}) {
    REQUIRE(in.next());
    CHECK(in.head().id == id);
    CHECK(in.head().left.at == at(106s));
    infer x;
    REQUIRE(in.read(x));
    CHECK(x.model == "m" + std::to_string(id));
    CHECK(values_of(x.inputs.at(0).value)[0] == static_cast<float>(id));
  }
  CHECK(in.at_end());
}

TEST_CASE("unsent frames: a frame with settled requests only is empty") {
  auto none = [](uint64_t) { return std::optional<timestamp>{}; };
  CHECK(with_time_left(frame_of({1}).content, at(0s), none).first.size() == 0);
}
