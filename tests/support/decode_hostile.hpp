// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include "tests/support/allocation_meter.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/hostile_frames.hpp"
#include "transport/client_message.hpp"

namespace millrace::test {

/// Checks that decoding a frame gives the answer in the table once and stays
/// within the memory limit.
inline void check_decoding(const hostile_frame& x) {
  INFO(x.item);
  std::vector<shared_bytes> raw;
  for (auto& frame : x.raw)
    raw.push_back(shared_bytes::copy_of(frame));
  client_frame y;
  {
    allocation_meter meter;
    y = decode_client_frame(nullptr, {0, "c"},
                            std::as_bytes(std::span{x.first}), raw, at(0s));
    CHECK(meter.peak() <= 4 * x.first.size() + (64u << 10));
  }
  if (x.decodes) {
    CHECK(y.refused.empty());
    CHECK(y.accepted.size() == 1);
    return;
  }
  REQUIRE(y.refused.size() == 1);
  CHECK(y.refused[0].why.text == x.says);
  CHECK(y.refused[0].why.code == x.status);
  CHECK(y.refused[0].tag.id == x.id);
}

} // namespace millrace::test
