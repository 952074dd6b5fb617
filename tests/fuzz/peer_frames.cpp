// SPDX-License-Identifier: Apache-2.0

/// \file
/// Messages from another node: header, role table, and any message of the list,
/// with addresses of actors.

#include "tests/fuzz/frames.hpp"
#include "tests/support/allocation_meter.hpp"
#include "transport/access.hpp"
#include "transport/message_types.hpp"

using namespace millrace;

namespace {

/// An address book without actors. It reads each address that it is asked for.
class empty_book : public address_book {
public:
  std::string address_of(const caf::strong_actor_ptr&) override { return {}; }
  caf::strong_actor_ptr resolve(std::string_view address) override {
    asked_ += address.size();
    return nullptr;
  }

private:
  size_t asked_ = 0;
};

shared_bytes encode(const message_type& type, const caf::message& x,
                    std::vector<shared_bytes>* attachments) {
  encoder out{fuzz::now(), nullptr};
  type.encode(out, x.at(0));
  *attachments = out.take_attachments();
  return out.take_body();
}

void check_round_trip(const message_type& type, const caf::message& x) {
  std::vector<shared_bytes> attachments;
  auto body = encode(type, x, &attachments);
  empty_book book;
  decode_context ctx{fuzz::now(), &book, attachments, 0};
  auto again = type.decode(body.view(), ctx);
  // Full encoding of a message near a limit may exceed that limit.
  if (!again && again.failure().code == ec::too_large)
    return;
  fuzz::require(static_cast<bool>(again),
                "what was accepted is accepted again");
  auto same = encode(type, *again, &attachments);
  fuzz::require(std::ranges::equal(body.view(), same.view()),
                "what was accepted comes back as it was");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto frames = fuzz::split_frames(std::as_bytes(std::span{data, size}));
  const message_type* type = nullptr;
  caf::message content;
  {
    test::allocation_meter meter;
    auto x = fuzz::receive(frames);
    if (x && may_say(role::controller, x->head.t)
        && (type = find_message_type(x->head.t)) != nullptr) {
      empty_book book;
      decode_context ctx{fuzz::now(), &book, x->attachments, 0};
      if (auto decoded = type->decode(x->body.view(), ctx))
        content = std::move(*decoded);
    }
    fuzz::require(meter.peak() <= fuzz::memory_allowed(size),
                  "P11: decoding holds at most 4 x the input and 64 KiB");
  }
  if (!content.empty())
    check_round_trip(*type, content);
  return 0;
}
