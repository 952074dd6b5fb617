// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/support/builders.hpp"
#include "tests/support/samples.hpp"
#include "transport/client_message.hpp"
#include "transport/messages/peer.hpp"

using namespace millrace;
using namespace millrace::test;

namespace {

infer ask_for(const std::string& model) {
  infer out;
  out.model = model;
  return out;
}

template <class T>
void add(frame_writer& to, uint64_t id, const T& x) {
  header head;
  head.id = id;
  head.left = {at(1s)};
  to.add(head, x, at(0s));
}

client_frame decode_frame(const shared_bytes& first,
                          const std::vector<shared_bytes>& raw = {}) {
  return decode_client_frame(nullptr, {0, "c"}, first.view(), raw, at(0s));
}

shared_bytes joined(const shared_bytes& x, const std::string& rest) {
  return shared_bytes::copy_of(std::string{x.text()} + rest);
}

const request_group& group_of(const caf::message& x) {
  REQUIRE(x.match_elements<client_requests>());
  return *x.get_as<client_requests>(0).group;
}

} // namespace

TEST_CASE("client frame: one message is a group of one, answered alone") {
  frame_writer out;
  add(out, 7, ask_for("m"));
  auto x = decode_frame(out.take().first);
  REQUIRE(x.accepted.size() == 1);
  auto& group = group_of(x.accepted[0]);
  REQUIRE(group.requests.size() == 1);
  CHECK(group.requests[0].tag == client_tag{7, false});
  CHECK(group.requests[0].due.at == at(1s));
  CHECK(group.requests[0].request.model == "m");
}

TEST_CASE("client frame: one without content is refused like one without"
          " sense") {
  for (auto text : {"", "rubbish"}) {
    auto x = decode_frame(shared_bytes::copy_of(std::string_view{text}));
    REQUIRE(x.refused.size() == 1);
    CHECK(x.refused[0].tag == client_tag{});
    CHECK(x.refused[0].why.code == ec::bad_request);
  }
}

TEST_CASE("client frame: messages in one frame keep their order, neighbouring"
          " requests share a group") {
  frame_writer out;
  add(out, 1, ask_for("a"));
  add(out, 2, ask_for("b"));
  add(out, 1, cancel{});
  add(out, 3, describe_models{"m"});
  add(out, 4, ask_for("c"));
  auto x = decode_frame(out.take().first);
  CHECK(x.messages == 5);
  CHECK(x.refused.empty());
  REQUIRE(x.accepted.size() == 4);
  auto& first = group_of(x.accepted[0]);
  REQUIRE(first.requests.size() == 2);
  CHECK(first.requests[0].tag == client_tag{1, true});
  CHECK(first.requests[1].request.model == "b");
  CHECK(x.accepted[1].get_as<client_cancel>(0).id == 1);
  CHECK(x.accepted[2].get_as<client_describe>(0).tag == client_tag{3, true});
  CHECK(group_of(x.accepted[3]).requests[0].request.model == "c");
}

TEST_CASE("client frame: raw frames are numbered through all messages") {
  frame_writer out;
  for (uint64_t id : {1, 2}) {
    auto request = ask_for("m");
    request.inputs.push_back({"", floats({1, 1000}, static_cast<float>(id))});
    add(out, id, request);
  }
  auto frames = out.take();
  REQUIRE(frames.raw.size() == 2);
  auto x = decode_frame(frames.first, frames.raw);
  auto& requests = group_of(x.accepted.at(0)).requests;
  for (size_t i : {0, 1})
    CHECK(values_of(requests[i].request.inputs[0].value)[0]
          == static_cast<float>(i + 1));
}

TEST_CASE("client frame: what is refused does not take its neighbours along") {
  frame_writer out;
  add(out, 1, ask_for("a"));
  add(out, 2, sample<hello>(at(0s))); // not a client's to say
  auto broken = ask_for("b");
  broken.inputs.push_back({"", floats({1, 4})});
  add(out, 3, broken);
  add(out, 4, ask_for("c"));
  auto text = std::string{out.take().first.text()};
  text.replace(text.find("F32"), 3, "F33");
  auto x = decode_frame(shared_bytes::copy_of(text));
  REQUIRE(x.refused.size() == 2);
  CHECK(x.refused[0].tag == client_tag{2, true});
  CHECK(x.refused[0].why.code == ec::forbidden);
  CHECK(x.refused[1].tag == client_tag{3, true});
  CHECK(x.refused[1].why.text.find("inputs.dtype") != std::string::npos);
  REQUIRE(x.accepted.size() == 1);
  auto& requests = group_of(x.accepted[0]).requests;
  REQUIRE(requests.size() == 2);
  CHECK(requests[1].tag.id == 4);
}

TEST_CASE("client frame: where a header cannot be read, what came before"
          " counts") {
  frame_writer out;
  add(out, 1, ask_for("a"));
  auto x = decode_frame(joined(out.take().first, "rubbish"));
  CHECK(x.accepted.size() == 1);
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == 0);
  CHECK(x.refused[0].why.code == ec::bad_request);
}

TEST_CASE("P11: a frame has so many messages, and no room for more than its"
          " size earns") {
  std::string text;
  for (uint64_t id = 1; id <= wire_limits::grouped + 1; ++id) {
    frame_writer out;
    add(out, id, ask_for("m"));
    text += out.take().first.text();
  }
  auto x = decode_frame(shared_bytes::copy_of(text));
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == wire_limits::grouped + 1);
  CHECK(x.refused[0].why.code == ec::too_large);
  CHECK(group_of(x.accepted.at(0)).requests.size() == wire_limits::grouped);

  frame_reader in{shared_bytes::copy_of(text).view(), {}, at(0s)};
  CHECK(in.spend(decode_budget(text.size())));
  CHECK(in.spend(1).failure().code == ec::too_large);
}

TEST_CASE("wire: a writer says when a frame is full, and is empty after it was"
          " taken") {
  frame_writer out;
  while (!out.full())
    add(out, out.messages() + 1, ask_for("m"));
  CHECK(out.messages() == wire_limits::grouped);
  CHECK(out.take().first.size() > 0);
  CHECK(out.messages() == 0);
  auto many = ask_for("m");
  for (int i = 0; i < 100; ++i)
    many.inputs.push_back({"", floats({1, 200})}); // 800 bytes: in the body
  add(out, 1, many);
  CHECK(out.full());
  CHECK(out.take().raw.empty());
  auto large = ask_for("m");
  large.inputs.push_back({"", floats({100, 200})}); // in a frame of its own
  add(out, 1, large);
  CHECK(out.full());
}
