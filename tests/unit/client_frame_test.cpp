// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "runtime/text.hpp"
#include "tests/support/builders.hpp"
#include "tests/support/samples.hpp"
#include "transport/client_message.hpp"
#include "transport/messages/peer.hpp"

using namespace std::string_literals;
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

header header_of(const char* type, uint64_t id) {
  header out;
  out.v = protocol_version;
  out.t = type;
  out.id = id;
  return out;
}

template <class T>
shared_bytes alone(uint64_t id, const T& x) {
  frame_writer out;
  add(out, id, x);
  return out.take().first;
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

TEST_CASE(
  "client frame: a single message is a group of one and is answered alone") {
  auto x = decode_frame(alone(7, ask_for("m")));
  REQUIRE(x.accepted.size() == 1);
  auto& group = group_of(x.accepted[0]);
  REQUIRE(group.requests.size() == 1);
  CHECK(group.requests[0].tag == client_tag{7, false});
  CHECK(group.requests[0].due.at == at(1s));
  CHECK(group.requests[0].request.model == "m");
}

TEST_CASE("client frame: an empty frame is refused like an invalid one") {
  for (auto text : {"", "rubbish"}) {
    auto x = decode_frame(shared_bytes::copy_of(std::string_view{text}));
    REQUIRE(x.refused.size() == 1);
    CHECK(x.refused[0].tag == client_tag{});
    CHECK(x.refused[0].why.code == ec::bad_request);
  }
}

TEST_CASE("client frame: messages keep their order and adjacent requests share "
          "a group") {
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

TEST_CASE("client frame: raw frames are numbered across all messages") {
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

TEST_CASE("client frame: a refused message does not affect its neighbours") {
  frame_writer out;
  add(out, 1, ask_for("a"));
  add(out, 2, sample<hello>(at(0s))); // not permitted to clients
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

TEST_CASE("client frame: messages before an unreadable header are accepted") {
  auto x = decode_frame(joined(alone(1, ask_for("a")), "rubbish"));
  CHECK(x.accepted.size() == 1);
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == 0);
  CHECK(x.refused[0].why.code == ec::bad_request);
}

TEST_CASE("P11: a frame has at most 64 messages") {
  std::string text;
  for (uint64_t id = 1; id <= wire_limits::grouped + 2; ++id)
    text += alone(id, ask_for("m")).text();
  auto x = decode_frame(shared_bytes::copy_of(text));
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == wire_limits::grouped + 1);
  CHECK(x.refused[0].why.code == ec::too_large);
  CHECK(group_of(x.accepted.at(0)).requests.size() == wire_limits::grouped);
}

TEST_CASE("P11: the messages of one frame share one memory budget") {
  // An input without elements takes 9 bytes in MessagePack and 16 times as many
  // in memory. One request with many such inputs fits, ten do not.
  std::string body{"\x81\xa6inputs\xdc\x01\x00", 11};
  for (int i = 0; i < 256; ++i)
    body += "\x81\xa5shape\x91\x00"s;
  auto request = [&](uint64_t id) {
    auto head = header_of("infer", id);
    return std::string{encode_header(head, at(0s)).text()} + body;
  };
  CHECK(decode_frame(shared_bytes::copy_of(request(1))).accepted.size() == 1);
  std::string text;
  for (uint64_t id = 1; id <= 10; ++id)
    text += request(id);
  auto x = decode_frame(shared_bytes::copy_of(text));
  REQUIRE(!x.refused.empty());
  CHECK(x.refused[0].why.code == ec::too_large);
  CHECK(group_of(x.accepted.at(0)).requests.size() < 10);
}

TEST_CASE("client frame: a frame at the limits of a writer is accepted with "
          "inputs of any number") {
  for (int inputs : {0, 1, 4, 20, 28, 40, 200}) {
    CAPTURE(inputs);
    auto request = ask_for("m");
    for (int i = 0; i < inputs; ++i)
      request.inputs.push_back({"", floats({})});
    frame_writer out;
    while (!out.full())
      add(out, out.messages() + 1, request);
    auto n = out.messages();
    auto x = decode_frame(out.take().first);
    CHECK(x.refused.empty());
    CHECK(group_of(x.accepted.at(0)).requests.size() == n);
  }
}

TEST_CASE("client frame: a body over a limit does not affect its neighbours") {
  auto deep = std::string(13, '\x91') + "\x00"s;
  auto wide = "\xdd\x00\x01\x00\x01"s + std::string(65'537, '\x00');
  auto text = "\xdb\x00\x20\x00\x00"s + std::string(2 << 20, 't');
  for (auto& value : {deep, wide, text}) {
    auto head = header_of("infer", 2);
    auto bad =
      std::string{encode_header(head, at(0s)).text()} + "\x81\xa5other" + value;
    auto x = decode_frame(
      shared_bytes::copy_of(std::string{alone(1, ask_for("a")).text()} + bad
                            + std::string{alone(3, ask_for("c")).text()}));
    REQUIRE(x.refused.size() == 1);
    CHECK(x.refused[0].tag == client_tag{2, true});
    CHECK(x.refused[0].why.code == ec::too_large);
    REQUIRE(x.accepted.size() == 1);
    CHECK(group_of(x.accepted[0]).requests.size() == 2);
  }
}

TEST_CASE("P1: a cancel is never answered itself with any body") {
  auto head = header_of("cancel", 5);
  auto start = std::string{encode_header(head, at(0s)).text()};
  for (auto body : {"", "\x80", "\xc1", "\x01"}) {
    auto x = decode_frame(shared_bytes::copy_of(start + body));
    CHECK(x.refused.empty());
    REQUIRE(x.accepted.size() == 1);
    CHECK(x.accepted[0].get_as<client_cancel>(0).id == 5);
  }
}

TEST_CASE("wire: a writer reports a full frame and is empty after its frame "
          "was taken") {
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

TEST_CASE("client frame: a version is a text or a whole number") {
  auto body_of = [](const std::string& version) {
    return "\x82\xa5model\xa1m\xa7version" + version;
  };
  auto head = std::string{encode_header(header_of("infer", 1), at(0s)).text()};
  for (auto& [wire, version] :
       {std::pair{"\x02"s, "2"s},
        {"\xa1\x32"s, "2"s},
        {"\xa4"
         "best"s,
         "best"s},
        {"\xcf\x00\x00\x00\x01\x00\x00\x00\x00"s, "4294967296"s}}) {
    auto x = decode_frame(shared_bytes::copy_of(head + body_of(wire)));
    REQUIRE(x.accepted.size() == 1);
    CHECK(group_of(x.accepted[0]).requests[0].request.version == version);
  }
  for (auto& wire : {"\xff"s, "\xc3"s, "\x90"s}) { // -1, true, []
    auto x = decode_frame(shared_bytes::copy_of(head + body_of(wire)));
    REQUIRE(x.refused.size() == 1);
    CHECK(x.refused[0].tag.id == 1);
    CHECK(x.refused[0].why.text.find("a text or a whole number")
          != std::string::npos);
  }
}

TEST_CASE("client frame: a request of another protocol version is refused "
          "under its id with both versions") {
  auto head = header_of("infer", 77);
  head.v = 3;
  auto x =
    decode_frame(joined(encode_header(head, at(0s)), "\x81\xa5model\xa1m"));
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == 77);
  CHECK(x.refused[0].why.code == ec::bad_request);
  CHECK(x.refused[0].why.text
        == "protocol version 3 is not supported here (expected 2 in header key"
           " 'v')");
  CHECK_FALSE(x.refused[0].offence);
  head.v = 0;
  x = decode_frame(joined(encode_header(head, at(0s)), "\x80"));
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == 77);
  CHECK(x.refused[0].offence);
}

TEST_CASE("client frame: a header that is readable only in part gives no id") {
  auto x =
    decode_frame(shared_bytes::copy_of("\x83\xa1v\x02\xa2id\x07\xa1t\x05"s));
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == 0);
}

TEST_CASE("client frame: the messages of a frame with a raw frame over 256 MiB"
          " are refused under their ids") {
  frame_writer out;
  add(out, 1, ask_for("a"));
  add(out, 2, ask_for("b"));
  std::byte one{};
  // Nothing reads the bytes of such a frame.
  shared_bytes large{const_bytes{&one, wire_limits::message_bytes + 1},
                     nullptr};
  auto x = decode_frame(out.take().first, {large});
  CHECK(x.accepted.empty());
  REQUIRE(x.refused.size() == 2);
  for (uint64_t i : {0, 1}) {
    CHECK(x.refused[i].tag == client_tag{i + 1, true});
    CHECK(x.refused[i].why.code == ec::too_large);
    CHECK_FALSE(x.refused[i].offence);
  }
}

TEST_CASE(
  "client frame: names with control characters are refused and shown escaped") {
  for (auto bytes : {"\x1b[2J", "\x07", "\x7f", "\u009b", "\n", "\xff"}) {
    CAPTURE(shown(bytes));
    auto name = std::string{"m"} + bytes;
    auto by_model = ask_for(name);
    auto by_application = infer{};
    by_application.application = name;
    auto by_version = ask_for("m");
    by_version.version = name;
    auto by_input = ask_for("m");
    by_input.inputs.push_back({name, floats({1, 4})});
    for (auto& request : {by_model, by_application, by_version, by_input}) {
      auto x = decode_frame(alone(5, request));
      REQUIRE(x.refused.size() == 1);
      CHECK(x.refused[0].tag.id == 5);
      CHECK(x.refused[0].why.code == ec::bad_request);
      CHECK(x.refused[0].why.text.find(shown(name)) != std::string::npos);
    }
    auto x = decode_frame(alone(6, describe_models{name}));
    REQUIRE(x.refused.size() == 1);
    CHECK(x.refused[0].tag.id == 6);
  }
}

TEST_CASE("client frame: a trace id with control characters is refused without "
          "an effect on its neighbours") {
  frame_writer out;
  add(out, 1, ask_for("a"));
  header head;
  head.id = 2;
  head.trace = "t\x1b[31m";
  out.add(head, ask_for("b"), at(0s));
  add(out, 3, ask_for("c"));
  auto x = decode_frame(out.take().first);
  REQUIRE(x.refused.size() == 1);
  CHECK(x.refused[0].tag.id == 2);
  CHECK(x.refused[0].why.code == ec::bad_request);
  CHECK(x.refused[0].why.text.find("trace id 't\\x1b[31m'")
        != std::string::npos);
  CHECK_FALSE(x.refused[0].offence);
  CHECK(group_of(x.accepted.at(0)).requests.size() == 2);
}
