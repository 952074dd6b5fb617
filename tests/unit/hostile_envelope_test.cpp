// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/decode_hostile.hpp"
#include "transport/zmq/socket.hpp"

using namespace millrace;
using namespace millrace::test;

TEST_CASE("P11: each hostile envelope is refused with a specific error and "
          "little memory") {
  auto all = hostile_envelopes();
  REQUIRE(all.size() > 290);
  for (auto& x : all)
    check_decoding(x);
}

TEST_CASE("P11: a message of 100000 frames is refused") {
  zeromq::frame_list frames;
  for (int i = 0; i < 100'000; ++i)
    frames.emplace_back();
  CHECK(zeromq::take_raw(frames, 1).failure().text
        == "the message has more than 4096 raw frames");
  frames.resize(wire_limits::attachments + 1);
  CHECK(zeromq::take_raw(frames, 1));
}
