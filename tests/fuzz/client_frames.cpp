// SPDX-License-Identifier: Apache-2.0

/// \file
/// Frames from a client that the gateway's node decodes: headers, role table,
/// bodies, tensors, several messages in a frame.

#include "tests/fuzz/frames.hpp"
#include "tests/support/allocation_meter.hpp"
#include "transport/client_message.hpp"

using namespace millrace;

namespace {

/// Checks that an accepted request is written and read again as the same.
void check_round_trip(const infer& x) {
  encoder out{fuzz::now(), nullptr};
  out.put(x);
  auto body = out.take_body();
  auto attachments = out.take_attachments();
  decode_context ctx{fuzz::now(), nullptr, attachments, 0};
  auto again = decode<infer>(body.view(), ctx);
  // Full encoding of a message near a limit may exceed that limit.
  if (!again && again.failure().code == ec::too_large)
    return;
  fuzz::require(static_cast<bool>(again),
                "what was accepted is accepted again");
  encoder twice{fuzz::now(), nullptr};
  twice.put(*again);
  auto same = twice.take_body();
  fuzz::require(std::ranges::equal(body.view(), same.view()),
                "what was accepted comes back as it was");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto frames = fuzz::split_frames(std::as_bytes(std::span{data, size}));
  if (frames.empty())
    return 0;
  client_frame x;
  {
    test::allocation_meter meter;
    x = decode_client_frame(nullptr, {0, "c"}, frames[0].view(),
                            std::span{frames}.subspan(1), fuzz::now());
    fuzz::require(meter.peak() <= fuzz::memory_allowed(size),
                  "P11: decoding holds at most 4 x the input and 64 KiB");
  }
  for (auto& content : x.accepted)
    if (content.match_elements<client_requests>())
      for (auto& y : content.get_as<client_requests>(0).group->requests)
        check_round_trip(y.request);
  return 0;
}
